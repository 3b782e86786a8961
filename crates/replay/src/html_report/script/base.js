"use strict";
// What all parts of a page use, of a report and of the live device's dashboard. Texts of results become text nodes and attributes,
// never markup.

/** An element with attributes and children; children that are texts become text nodes. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}

function button(label, onPress, attributes = {}) {
  const element = make("button", { type: "button", ...attributes }, label);
  element.addEventListener("click", () => onPress(element));
  return element;
}

/** A button that is on or off. */
function toggle(label, isOn, onChange) {
  return button(label, (element) => {
    const isNowOn = element.getAttribute("aria-pressed") !== "true";
    element.setAttribute("aria-pressed", isNowOn);
    onChange(isNowOn);
  }, { "aria-pressed": isOn });
}

/** A labelled list of choices; `onChange` gets the number of the chosen one. */
function choice(label, names, onChange) {
  const select = make("select", {}, ...names.map((name, number) => make("option", { value: number }, name)));
  select.addEventListener("change", () => onChange(Number(select.value)));
  return make("label", {}, label, select);
}

/** A number for people: four significant digits, thousands apart. */
function shown(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "-";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e12)) return value.toExponential(2);
  if (Number.isInteger(value) || size >= 1e4) return Math.round(value).toLocaleString("en");
  return value.toLocaleString("en", { maximumSignificantDigits: 4 });
}

/** The same, short enough for an axis. */
function short(value) {
  if (value === null || value === undefined) return "";
  const size = Math.abs(value);
  for (const [unit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= unit) {
      const [scale, letter] = unit === 1e4 ? [1e3, "k"] : [unit, name];
      return (value / scale).toLocaleString("en", { maximumSignificantDigits: 3 }) + letter;
    }
  }
  return value.toLocaleString("en", { maximumSignificantDigits: 3 });
}

/** A colour of the style sheet as the canvas takes it, in the scheme that is in force. */
function colour(name) {
  const probe = make("span", { hidden: "" });
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

const CAUSES = {
  host: "for the host", gc: "by garbage collection", wear: "by wear leveling", translation: "of translation pages", validity: "of page validity",
  remap_log: "of the remap log", content: "of deltas and chunks", checkpoint: "of checkpoints", block_metadata: "of block metadata",
  recovery: "by recovery", scrub: "by scrubbing",
};

/** The same colour as an area behind lines. */
const faded = (rgb) => rgb.replace("rgb(", "rgba(").replace(")", ", 0.2)");

const SERIES_COLOURS = 7;
const DASHES = [[], [10, 5], [4, 4], [14, 4, 3, 4]];

/** Colour and dash of a series: no two of the first 28 are alike, and equal lines show through each other. */
const styleOf = (number) => ({
  colour: `color-${number % SERIES_COLOURS}`,
  dash: DASHES[number % DASHES.length],
});

/** Everything with a canvas, to be drawn again when colours or sizes change. */
const drawn = [];
const redrawAll = () => drawn.forEach((one) => one.draw());

/** Takes the charts out of a place: they are not drawn again. */
function empty(place) {
  const left = drawn.filter((one) => !place.contains(one.plotted ?? one.canvas));
  drawn.splice(0, drawn.length, ...left);
  place.replaceChildren();
}

const SCHEMES = [["colours: as the system", "light dark"], ["colours: light", "light"], ["colours: dark", "dark"]];

/** Makes the button of the page choose the colours, and draws again when they change. */
function offerColours() {
  const theme = document.getElementById("theme");
  let scheme = 0;
  theme.hidden = false;
  theme.textContent = SCHEMES[0][0];
  theme.addEventListener("click", () => {
    scheme = (scheme + 1) % SCHEMES.length;
    theme.textContent = SCHEMES[scheme][0];
    document.documentElement.style.colorScheme = SCHEMES[scheme][1];
    redrawAll();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  matchMedia("print").addEventListener("change", redrawAll);
}
