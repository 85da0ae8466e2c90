/* Adds to the form what only the browser knows. Without this script the form works all the same.
   Plain old syntax: the page opens in the browsers of chat apps on old phones. */
(function () {
  "use strict";
  var form = document.getElementById("accept");
  var share = document.getElementById("share");
  var shareStatus = document.getElementById("share-status");
  var offline = document.getElementById("offline");
  var told = { device: {}, terms_unfolded: [] };
  var parts = [].slice.call(document.querySelectorAll("#terms details"));
  var unfold = document.getElementById("unfold");
  var memory = "unfolded:" + document.getElementById("decline").getAttribute("action"); /* of this session only */
  var sent = false;
  var button = form && form.querySelector("button");
  var label = button && button.textContent;

  function tell(key, value, length) {
    if (typeof value === "string" && value) told.device[key] = value.slice(0, length || 120);
  }

  function say(text, done) {
    shareStatus.className = done ? "done" : "";
    shareStatus.textContent = text;
  }

  function describeDevice() {
    var hints = navigator.userAgentData;
    tell("userAgent", navigator.userAgent, 512);
    tell("platform", (hints && hints.platform) || navigator.platform);
    tell("language", navigator.language);
    tell("screen", screen.width + "x" + screen.height + "@" + (window.devicePixelRatio || 1));
    try { tell("timezone", Intl.DateTimeFormat().resolvedOptions().timeZone); } catch (_) { /* an old engine: not told */ }
    if (hints && hints.getHighEntropyValues) {
      hints.getHighEntropyValues(["model"]).then(function (values) { tell("deviceModel", values.model); }, function () { /* refused: not told */ });
    }
  }

  /* Which parts of the terms are unfolded, or were on this tab: the page is loaded again for each code. */
  function noteUnfolded(part, at) {
    function note() {
      if (!part.open || told.terms_unfolded.indexOf(at + 1) >= 0) return;
      told.terms_unfolded.push(at + 1);
      try { sessionStorage.setItem(memory, JSON.stringify(told.terms_unfolded)); } catch (_) { /* refused: this page's only */ }
    }
    note();
    part.addEventListener("toggle", note);
  }

  /* Without a reload: what the holder has done on the page stays. */
  function unfoldAll(event) {
    event.preventDefault();
    parts.forEach(function (part) { part.open = true; });
    document.getElementById("terms").scrollIntoView();
  }

  function notCollected(status) {
    told.geolocation = null;
    told.geolocation_status = status;
    share.removeAttribute("aria-disabled");
    say(status === "denied"
      ? "Localização não compartilhada. Tudo bem: você pode autorizar mesmo assim."
      : "O aparelho não informou a localização. Tudo bem: você pode autorizar mesmo assim.");
  }

  function askLocation() {
    if (share.getAttribute("aria-disabled")) return;
    if (!navigator.geolocation || !window.isSecureContext) return notCollected("unavailable");
    share.setAttribute("aria-disabled", "true");
    told.geolocation_status = "unavailable"; /* stands if the holder accepts before there is an answer */
    say("Responda à pergunta do navegador…");
    navigator.geolocation.getCurrentPosition(function (position) {
      var at = position.coords;
      told.geolocation = { lat: at.latitude, lng: at.longitude, accuracy: at.accuracy };
      told.geolocation_status = "granted";
      say("Localização incluída. Agora é só decidir abaixo.", true);
      if (document.activeElement === share) shareStatus.focus(); /* it goes with the button otherwise */
      share.hidden = true;
    }, function (error) {
      notCollected(error.code === 1 ? "denied" : "unavailable");
    }, { enableHighAccuracy: true, timeout: 20000, maximumAge: 0 });
  }

  /* Without a connection the browser would leave the page for its own error page. */
  function isOffline(event) {
    offline.textContent = "";
    if (navigator.onLine !== false) return false;
    event.preventDefault();
    offline.textContent = "Você está sem internet. Nada foi enviado: conecte-se e toque de novo.";
    offline.focus();
    return true;
  }

  function submit(event) {
    if (sent) return event.preventDefault(); /* a double tap */
    if (isOffline(event)) return;
    sent = true;
    button.setAttribute("aria-disabled", "true");
    button.textContent = "Registrando…";
    form.elements.browser.value = JSON.stringify(told);
    /* The connection was cut or the holder stopped it: nothing tells. A second acceptance changes nothing. */
    setTimeout(reset, 15000);
  }

  function reset() {
    sent = false;
    button.removeAttribute("aria-disabled");
    button.textContent = label;
  }

  /* After a wrong code: what the page before this one was told of the location. */
  function restore() {
    try { var before = JSON.parse(form.elements.browser.value || "{}"); } catch (_) { return; /* not ours: told anew */ }
    if (!before.geolocation) return;
    told.geolocation = before.geolocation;
    told.geolocation_status = before.geolocation_status;
    say("Localização incluída. Agora é só decidir abaixo.", true);
    share.hidden = true;
  }

  /* Another code can be asked for only some seconds after the one before. */
  function countDown(again, seconds) {
    var text = again.textContent;
    var end = Date.now() + seconds * 1000; /* timers stand still while the holder reads the message elsewhere */
    again.disabled = true;
    (function tick() {
      var left = Math.ceil((end - Date.now()) / 1000);
      if (left > 0) {
        again.textContent = text + " (" + left + " s)";
        return setTimeout(tick, 1000);
      }
      again.disabled = false;
      again.textContent = text;
    })();
  }

  if (form) { /* there is none before the holder asked for a code */
    describeDevice();
    restore();
    document.getElementById("location").hidden = false;
    share.addEventListener("click", askLocation);
    form.addEventListener("submit", submit);
  }
  try { told.terms_unfolded = JSON.parse(sessionStorage.getItem(memory)) || []; } catch (_) { /* refused: noted anew */ }
  parts.forEach(noteUnfolded);
  if (unfold) unfold.addEventListener("click", unfoldAll);
  var send = document.getElementById("send");
  if (send) {
    var again = send.querySelector("button");
    send.addEventListener("submit", isOffline);
    if (Number(again.getAttribute("data-wait"))) countDown(again, Number(again.getAttribute("data-wait")));
  }
  document.getElementById("decline").addEventListener("submit", isOffline);
  window.addEventListener("online", function () { offline.textContent = ""; });
  /* Back from the next page out of the browser's memory: show what holds now. */
  window.addEventListener("pageshow", function (event) { if (event.persisted) location.reload(); });
})();
