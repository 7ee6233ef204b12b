import { z } from "zod";
import { duration } from "../../base/document/duration.ts";
import { quantity } from "../../base/document/quantity.ts";
import { type FlagRow, MAX_DURATION } from "./go-flags.ts";

/** The schema of a flag's value where it stands in a file: what the command line takes as text, with its own kinds. */
export function flagSchema(row: FlagRow): z.ZodType {
  switch (row.type) {
    case "bool":
      return z.boolean();
    case "int":
      return z
        .int()
        .min(row.min ?? Number.MIN_SAFE_INTEGER)
        .max(row.max ?? Number.MAX_SAFE_INTEGER);
    case "duration":
      return z.preprocess(
        // The one duration that needs no unit, on the command line, too.
        (value) => (value === 0 ? "0" : value),
        duration({ min: row.min ?? 0 }).pipe(z.number().max(row.max ?? MAX_DURATION)),
      );
    case "quantity":
      return quantity().pipe(
        z
          .number()
          .min(row.min ?? 0)
          .max(row.max ?? Number.MAX_SAFE_INTEGER),
      );
    case "list":
      return z.array(z.string());
    case "string":
      return row.choices === undefined ? z.string() : z.enum(row.choices);
  }
}
