/**
 * What all plots of Sluice have in common, in the browser: the report of `sluice simulate --html` and the operator's page. The
 * colours are variables of the style sheet.
 */

const COLOURS = 8;
/** Pixels on and off. Seven of them beside eight colours: no two of the first 56 lines look the same. */
const DASHES = [[], [9, 4], [2, 3], [12, 4, 2, 4], [5, 5], [16, 5], [6, 3, 2, 3, 2, 3]];

const threeDigits = new Intl.NumberFormat("en-GB", { maximumSignificantDigits: 3 });
const allDigits = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });

/** Three digits below 1,000, all digits above. @param {number | null | undefined} value */
export const number = (value) =>
  value == null || !Number.isFinite(value) ? "–" : (Math.abs(value) < 1000 ? threeDigits : allDigits).format(value);

/** The value of a variable of the style sheet. @param {string} name */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
/** @param {number} policy */
export const policyColour = (policy) => colour(`--policy-${policy % COLOURS}`);
/** @param {number} policy */
export const dash = (policy) => DASHES[policy % DASHES.length] ?? [];
/** As CSS tells lines apart, for the legend. @param {number} policy */
export const dashWord = (policy) => {
  const [on] = dash(policy);
  return on === undefined ? "solid" : on > 3 ? "dashed" : "dotted";
};

/** The settings of the axes of uPlot: ink, grid and font. */
export function axes() {
  const grid = { stroke: colour("--line"), width: 1 };
  const font = "12px system-ui, sans-serif";
  const both = { stroke: colour("--ink-soft"), grid, ticks: grid, font, labelFont: font, labelSize: 20 };
  return { x: { ...both, size: 34 }, y: { ...both, size: 66 } };
}

/** From zero to a little more than the most. @param {number | null | undefined} max @returns {[number, number]} */
export function zeroRange(max) {
  return [0, max != null && max > 0 ? max * 1.08 : 1];
}
