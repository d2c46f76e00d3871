// The server's SVG, taken in as a picture and nothing else: no scripts, no links, nothing from elsewhere.

const SVG = "http://www.w3.org/2000/svg";
const ELEMENTS = new Set("svg g title text tspan path polygon polyline ellipse circle rect line".split(" "));
const ATTRIBUTES = new Set(
  ("class id transform viewBox width height d points x y cx cy r rx ry x1 y1 x2 y2 dx dy fill stroke stroke-width " +
    "stroke-dasharray stroke-linecap fill-opacity stroke-opacity font-family font-size font-weight font-style " +
    "text-anchor data-node data-edge data-type data-state display").split(" "),
);
let sheet = null;

/**
 * The picture as an element of this document, with its colours. Throws an Error if the text is no SVG.
 */
export function readPicture(text) {
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml");
  const root = parsed.documentElement;
  if (root.namespaceURI !== SVG || root.localName !== "svg" || parsed.querySelector("parsererror")) {
    throw new Error("The server's picture can't be read.");
  }
  takeColours(root);
  clean(root);
  return document.importNode(root, true);
}

/** The picture's own style sheet counts for the whole document; all pictures have the same. */
function takeColours(root) {
  const style = [...root.children].find((child) => child.localName === "style");
  if (!style || sheet) return;
  sheet = new CSSStyleSheet();
  sheet.replaceSync(style.textContent);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}

function clean(node) {
  for (const { name, value } of [...node.attributes]) {
    if (!ATTRIBUTES.has(name) || /url\s*\(/i.test(value)) node.removeAttribute(name);
  }
  for (const child of [...node.childNodes]) {
    if (child.nodeType === Node.TEXT_NODE) continue;
    if (child.nodeType === Node.ELEMENT_NODE && child.namespaceURI === SVG && ELEMENTS.has(child.localName)) clean(child);
    else child.remove();
  }
}
