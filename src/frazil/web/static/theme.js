// Runs before the first paint, so that the page does not flash in the other colours.
const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
function followTheme() {
  const chosen = localStorage.getItem("frazil-theme");
  const asSystem = systemIsDark.matches ? "dark" : "light";
  document.documentElement.dataset.theme = chosen === "light" || chosen === "dark" ? chosen : asSystem;
}
followTheme();
systemIsDark.addEventListener("change", followTheme);
