/* Runs before the page is painted, so that a chosen theme never flashes, and tells the style sheet that there is
   JavaScript. */
(function () {
  "use strict";
  const root = document.documentElement;
  root.classList.add("js");
  try {
    const chosen = localStorage.getItem("interlock-theme");
    if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
  } catch (refused) {
    /* storage is switched off: the system's theme it is */
  }
})();
