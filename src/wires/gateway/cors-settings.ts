import { z } from "zod";
import { originOf } from "./origin.ts";

/** The section `cors` of gateway.yaml. */
export const corsSchema = z.strictObject({
  origins: z
    .array(
      z.string().transform((text, context) => {
        const origin = originOf(text);
        if (origin !== undefined) return origin;
        context.addIssue({ code: "custom", message: "must be `*` or an origin such as https://chat.example:8443" });
        return z.NEVER;
      }),
    )
    .min(1, "must have at least one origin")
    .describe("The origins whose pages may use the gateway from a browser; `*` = all, without cookies."),
});
