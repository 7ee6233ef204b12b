/** The number a label holds; NaN unless it is a decimal integer of at most 15 digits. */
export function labelInteger(text: string | undefined): number {
  if (text === undefined || !/^\s*\d{1,15}\s*$/.test(text)) return Number.NaN;
  return Number(text);
}
