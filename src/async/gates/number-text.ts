/** The shortest decimal digits that read back as `value`, and the place of the decimal point: 0.digits x 10^point. */
function shortest(value: number): { readonly sign: string; readonly digits: string; readonly point: number } {
  const [mantissa = "", exponent = "0"] = Math.abs(value).toExponential().split("e");
  return { sign: value < 0 ? "-" : "", digits: mantissa.replace(".", ""), point: Number(exponent) + 1 };
}

/**
 * A finite number without exponent, as in Go's format `f`: 1e21 is 1000000000000000000000, 1e-7 is 0.0000001.
 * Source: async-processor 3.2.
 */
export function plainNumber(value: number): string {
  const { sign, digits, point } = shortest(value);
  if (point <= 0) return `${sign}0.${"0".repeat(-point)}${digits}`;
  if (point >= digits.length) return `${sign}${digits}${"0".repeat(point - digits.length)}`;
  return `${sign}${digits.slice(0, point)}.${digits.slice(point)}`;
}

/**
 * A finite number as in Go's format `g`: 100 is 100, 0.5 is 0.5, 1e6 is 1e+06. The published queries write their divisor this
 * way (async-processor 3.7), and dashboards compare their text.
 */
export function generalNumber(value: number): string {
  const { sign, digits, point } = shortest(value);
  const exponent = point - 1;
  if (value === 0 || (exponent >= -4 && exponent < 6)) return plainNumber(value);
  const mantissa = digits.length === 1 ? digits : `${digits[0]}.${digits.slice(1)}`;
  return `${sign}${mantissa}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
}
