// Picks the colour scheme before the first paint; a classic script in <head>, so that a reload never flashes.
// Guarantees only data-theme on <html>; frame.js owns the button that changes the choice.
(function () {
  var theme = null;
  try {
    theme = localStorage.getItem("syncline.theme");
  } catch (_) {
    // Storage may be forbidden: the system's scheme is used then.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
