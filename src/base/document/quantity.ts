import { z } from "zod";
import { SluiceError } from "../inference/errors.ts";

const DECIMAL: Readonly<Record<string, number>> = { n: -9, u: -6, m: -3, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 };
const BINARY: Readonly<Record<string, number>> = { Ki: 10, Mi: 20, Gi: 30, Ti: 40, Pi: 50, Ei: 60 };
const QUANTITY = /^([+-]?)(\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?\d{1,3}))?$/;
const EXAMPLE = 'a quantity such as 1000, "10Gi", "1G" or "500k"';

/**
 * Reads a Kubernetes quantity: a decimal number with a suffix or a decimal exponent. Suffixes: `n u m k M G T P E` (powers of
 * ten), `Ki Mi Gi Ti Pi Ei` (powers of two).
 * @returns the number, possibly fractional or negative
 * @throws SluiceError QUANTITY_SYNTAX
 */
export function parseQuantity(text: string): number {
  const match = QUANTITY.exec(text);
  if (match === null) throw malformed(text);
  const [, sign, digits, binary, decimal, exponent] = match;
  // Powers of ten go through the number parser, which rounds once; powers of two multiply exactly.
  const power = decimal === undefined ? Number(exponent ?? 0) : DECIMAL[decimal]!;
  const amount = Number(`${digits}e${power}`) * (binary === undefined ? 1 : 2 ** BINARY[binary]!);
  if (!Number.isFinite(amount)) throw malformed(text);
  return sign === "-" ? -amount : amount;
}

/**
 * Schema of a quantity in a configuration file. In: a string such as "10Gi", or a plain number. Out: a whole number from 0 up, a
 * fraction rounded up. Anything else is a violation with an example of a quantity.
 */
export function quantity() {
  return z
    .union([z.string(), z.number()], { error: ({ input }) => (input === undefined ? undefined : describe(input)) })
    .transform((input, context) => {
      let amount: number;
      try {
        amount = typeof input === "number" ? input : parseQuantity(input);
      } catch (error) {
        context.addIssue({ code: "custom", message: (error as SluiceError).message });
        return z.NEVER;
      }
      if (amount < 0) context.addIssue({ code: "custom", message: `field must be non-negative, got ${input}` });
      // Kubernetes rounds fractions of a unit up.
      return Math.ceil(amount);
    });
}

function malformed(text: string): SluiceError {
  return new SluiceError("QUANTITY_SYNTAX", describe(text.slice(0, 80)));
}

function describe(input: unknown): string {
  return `expected ${EXAMPLE}, got ${JSON.stringify(input)}`;
}
