// SPDX-License-Identifier: Apache-2.0
// A click beside the bars of a lease follows the link of the row "New lease" above it.
(function () {
  'use strict';

  document.addEventListener('click', function (event) {
    var target = event.target;
    if (!(target instanceof Element) || target.closest('a, .climate-bar')) {
      return;
    }
    var track = target.closest('.climate-slots ~ .climate-row .climate-track');
    var slots = track ? track.closest('.climate-rows').querySelectorAll('.climate-slot') : [];
    Array.prototype.some.call(slots, function (slot) {
      var box = slot.getBoundingClientRect();
      var isHere = box.left <= event.clientX && event.clientX < box.right;
      if (isHere) {
        slot.click();
      }
      return isHere;
    });
  });
})();
