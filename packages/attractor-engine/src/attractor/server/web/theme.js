// Light or dark: as the system says, unless a person chose.

const KEY = "attractor-theme";
const NEXT = { system: "light", light: "dark", dark: "system" };
const NAMES = { system: "auto", light: "light", dark: "dark" };

/** Make a button that changes the theme. */
export function setUpTheme(button, storage = window.localStorage) {
  const show = (theme) => {
    document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${NAMES[theme]}`;
    button.setAttribute("aria-label", `Theme: ${NAMES[theme]}. Press to change.`);
    button.title = "Light, dark, or as the system says";
  };
  let theme = storage.getItem(KEY);
  theme = theme in NEXT ? theme : "system";
  show(theme);
  button.addEventListener("click", () => {
    theme = NEXT[theme];
    storage.setItem(KEY, theme);
    show(theme);
  });
}
