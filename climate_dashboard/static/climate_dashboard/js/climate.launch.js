// SPDX-License-Identifier: Apache-2.0
// The step "Reserve" of Horizon's form that launches servers.
(function () {
  'use strict';

  var WORKFLOW = 'horizon.dashboard.project.workflow.launch-instance';

  angular
    .module('horizon.climate.launch', [WORKFLOW])
    .controller('ClimateReserveController', ReserveController)
    .config(extend);

  extend.$inject = ['$provide'];

  // A decorator runs when the form is needed: on the login page the checks of its steps would fail.
  function extend($provide) {
    $provide.decorator(WORKFLOW + '.workflow', addStep);
  }

  addStep.$inject = ['$delegate', '$window', 'horizon.app.core.workflow.decorator'];

  function addStep(workflow, $window, addChecks) {
    var step = {
      id: 'climate-reserve',
      // The template sets the title, in the language of the user.
      title: undefined,
      templateUrl: $window.WEBROOT + 'project/climate_leases/launch/',
      formName: 'climateReserveForm',
      requiredServiceTypes: ['reservation'],
      policy: { rules: [['reservation', 'climate:leases:create']] }
    };
    addChecks({ steps: [step] });
    return workflow.after('flavor', step);
  }

  ReserveController.$inject = ['$scope', 'horizon.framework.widgets.wizard.events'];

  function ReserveController($scope, events) {
    var reserve = this;
    reserve.wanted = false;
    reserve.start = null;
    reserve.duration = '4h';
    reserve.onEnd = '';
    reserve.setUp = setUp;

    $scope.$on(events.BEFORE_SUBMIT, setHints);

    function setUp(title, zone) {
      $scope.step.title = title;
      reserve.zone = zone;
      reserve.earliest = new Date(Date.now() + offset(Date.now())).toISOString().slice(0, 16);
    }

    function setHints() {
      var spec = $scope.model.newInstanceSpec;
      if (!reserve.wanted) {
        return;
      }
      var params = { name: spec.name, duration: reserve.duration };
      if (reserve.start) {
        params.start = toUtc(reserve.start.getTime()).toISOString();
      }
      if (reserve.onEnd) {
        params.on_end = reserve.onEnd;
      }
      spec.scheduler_hints.reserved = 'True';
      spec.scheduler_hints.lease_params = angular.toJson(params);
    }

    // Return by how many milliseconds the clocks of the zone are ahead of UTC at a time.
    function offset(time) {
      var parts = {};
      var format = new Intl.DateTimeFormat('en-US', {
        timeZone: reserve.zone, hourCycle: 'h23', year: 'numeric', month: 'numeric',
        day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric'
      });
      format.formatToParts(new Date(time)).forEach(function (part) {
        parts[part.type] = Number(part.value);
      });
      var shown = Date.UTC(parts.year, parts.month - 1, parts.day, parts.hour, parts.minute,
                           parts.second);
      return shown - Math.floor(time / 1000) * 1000;
    }

    // Return the time at which the clocks of the zone show what those of UTC show at another.
    function toUtc(shown) {
      return new Date(shown - offset(shown - offset(shown)));
    }
  }
})();
