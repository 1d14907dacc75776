// Runs before the first paint, so that the page does not flash in the other colours.
const chosenTheme = localStorage.getItem("frazil-theme");
if (chosenTheme === "light" || chosenTheme === "dark") {
  document.documentElement.dataset.theme = chosenTheme;
}
