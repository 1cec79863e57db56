// The colour that the settings name, as an accent that can be read on light and on dark pages.
//
// Guarantees a contrast of at least 4.5 to 1 between accent and background, whatever colour was chosen: a colour that is
// too light or too dark is mixed with black or white until it can be read.

const CONTRAST_MIN = 4.5;
const MIX_STEP = 0.05;
// The surface of tokens.css, on which the accent stands.
const LIGHT = [255, 254, 251];
const DARK = [20, 28, 27];
const BLACK = [0, 0, 0];
const WHITE = [255, 255, 255];

/** Gives the page the colour of `settings`; contents that are no colour change nothing. */
export function applyTheme(settings, style = document.documentElement.style) {
  const accents = accentsOf(settings?.themeToken);
  if (accents === null) return;
  for (const [name, [light, dark]] of Object.entries(accents)) style.setProperty(name, `light-dark(${light}, ${dark})`);
}

/** The style properties of a hex colour, each for light and for dark; null if it is none. */
export function accentsOf(hex) {
  const colour = parse(hex);
  if (colour === null) return null;
  const accents = [legible(colour, LIGHT, BLACK), legible(colour, DARK, WHITE)];
  return {
    "--accent": accents.map(text),
    "--accent-hover": [text(mix(accents[0], BLACK, 0.25)), text(mix(accents[1], WHITE, 0.25))],
    "--on-accent": accents.map((accent) => text(contrast(accent, WHITE) >= contrast(accent, BLACK) ? WHITE : BLACK)),
  };
}

/** How well one can be read on the other, from 1 to 21, as WCAG defines it. */
export function contrast(one, other) {
  const [darker, lighter] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (lighter + 0.05) / (darker + 0.05);
}

/** `[red, green, blue]` of `#rgb`, `#rgba`, `#rrggbb` or `#rrggbbaa`; null if it is none of them. */
export function parse(hex) {
  if (typeof hex !== "string" || !/^#(?:[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})$/i.test(hex)) return null;
  const digits = hex.length <= 5 ? [...hex.slice(1)].map((digit) => digit + digit) : hex.slice(1).match(/../g);
  return digits.slice(0, 3).map((pair) => Number.parseInt(pair, 16));
}

function legible(colour, background, toward) {
  let share = 0;
  while (share < 1 && contrast(mix(colour, toward, share), background) < CONTRAST_MIN) share += MIX_STEP;
  return mix(colour, toward, Math.min(share, 1));
}

function mix(colour, other, share) {
  return colour.map((part, index) => Math.round(part + (other[index] - part) * share));
}

function luminance(colour) {
  const [red, green, blue] = colour.map((part) => {
    const level = part / 255;
    return level <= 0.04045 ? level / 12.92 : ((level + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function text(colour) {
  return `rgb(${colour.join(" ")})`;
}
