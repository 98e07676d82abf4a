// SPDX-License-Identifier: Apache-2.0
// The form of a new lease: shows whether the lease would be granted while it is filled in.
//
// Without this script the buttons of the form do the same and load the page again. A form has at
// most one request in progress: a later change aborts the request of an earlier one.

(function () {
  'use strict';

  // Milliseconds without a change until the form is sent.
  var PAUSE = 500;
  var PICKED = /^\d{4}-\d\d-\d\d[ T]\d\d:\d\d$/;

  function watch(form) {
    var outcome = form.querySelector('.climate-outcome');
    var touched = new Set();
    // After a full page, or a pressed button, the errors of all fields are shown.
    var showsAll = form.querySelector('.has-error') !== null;
    var timer = null;
    var running = null;
    var known = content().toString();

    function content() {
      return new URLSearchParams(new FormData(form));
    }

    function fields() {
      return Array.from(form.elements).filter(function (field) {
        return field.name && field.closest('.form-group');
      });
    }

    function show(html) {
      // The same text is not announced again.
      if (outcome.innerHTML !== html) {
        outcome.innerHTML = html;
      }
    }

    function markErrors(errors) {
      // The answer replaces what the page has said.
      form.querySelectorAll('fieldset .alert, fieldset .help-block').forEach(function (old) {
        old.remove();
      });
      fields().forEach(function (field) {
        var messages = (showsAll || touched.has(field.name)) && errors[field.name] || [];
        var group = field.closest('.form-group');
        var help = field.id + '_helptext';
        var ids = document.getElementById(help) ? [help] : [];
        group.classList.toggle('has-error', messages.length > 0);
        if (messages.length) {
          var note = document.createElement('span');
          note.className = 'help-block';
          note.id = field.id + '_error';
          note.textContent = messages.join(' ');
          group.append(note);
          ids.push(note.id);
          field.setAttribute('aria-invalid', 'true');
        } else {
          field.removeAttribute('aria-invalid');
        }
        if (ids.length) {
          field.setAttribute('aria-describedby', ids.join(' '));
        } else {
          field.removeAttribute('aria-describedby');
        }
      });
    }

    function findPartlyFilled() {
      return fields().find(function (field) { return field.validity.badInput; });
    }

    function stop() {
      clearTimeout(timer);
      if (running) {
        running.abort();
        running = null;
      }
      outcome.removeAttribute('aria-busy');
    }

    function ask(what) {
      stop();
      if (findPartlyFilled()) {
        show('');
        return;
      }
      var own = running = new AbortController();
      outcome.setAttribute('aria-busy', 'true');
      fetch(form.dataset.climateCheck + '?do=' + what, {
        method: 'POST',
        body: content(),
        headers: {'X-Requested-With': 'XMLHttpRequest'},
        signal: own.signal
      }).then(function (response) {
        if (!response.ok) {
          throw new Error(response.status);
        }
        return response.json();
      }).then(function (answer) {
        if (own === running) {
          show(answer.outcome);
          markErrors(answer.errors);
          stop();
        }
      }).catch(function () {
        if (own === running) {
          outcome.textContent = form.dataset.climateFailed;
          stop();
        }
      });
    }

    function setTime(name, time) {
      var field = form.elements[name];
      // A picker cannot show an offset.
      field.type = PICKED.test(time) ? 'datetime-local' : 'text';
      field.value = field.type === 'text' ? time : time.replace(' ', 'T');
    }

    // Horizon's selects report changes by jQuery only; its scripts also report some that are none.
    window.jQuery(form).on('input change', function (event) {
      var now = content().toString();
      if (now === known) {
        return;
      }
      known = now;
      touched.add(event.target.name);
      stop();
      timer = setTimeout(ask, PAUSE, 'check');
    });

    // A date without its time reports no change.
    form.addEventListener('focusout', function (event) {
      if (event.target.validity && event.target.validity.badInput) {
        stop();
        show('');
      }
    });

    form.addEventListener('click', function (event) {
      var button = event.target.closest('button[type="submit"]');
      if (!button) {
        return;
      }
      var partial = findPartlyFilled();
      if (partial) {
        event.preventDefault();
        partial.reportValidity();
      } else if (button.dataset.climateStart) {
        event.preventDefault();
        setTime('start', button.dataset.climateStart);
        form.elements.delay.value = '';
        if (button.dataset.climateEnd) {
          setTime('end', button.dataset.climateEnd);
        }
        // The button disappears with the next answer.
        form.elements.start.focus();
        ask('check');
      } else if (button.dataset.climateDo) {
        event.preventDefault();
        showsAll = true;
        ask(button.dataset.climateDo);
      } else {
        stop();
      }
    });
  }

  document.querySelectorAll('form[data-climate-check]').forEach(watch);
}());
