import { z } from "zod";
import { type HeaderList, withoutBlanks } from "../../../../base/inference/headers.ts";
import { defineProducer } from "../../../../base/plugin/define.ts";
import { SESSION_ID } from "../../../../base/plugin/keys.ts";
import { headerName, MAX_SESSION_ID, sessionIdIn } from "./session-affinity-parameters.ts";

const parameters = z
  .strictObject({
    headerName: headerName.optional().describe("The header that holds the session."),
    cookieName: z
      .string()
      .trim()
      .min(1, { error: "must not be empty" })
      .optional()
      .describe("The cookie that holds the session."),
  })
  .refine(({ headerName, cookieName }) => (headerName === undefined) !== (cookieName === undefined), {
    message: "takes exactly one of headerName and cookieName",
  });

/** scheduling 3.10.5 */
export const sessionIdProducer = defineProducer({
  type: "session-id-producer",
  describe: "Reads the session of a request from a header or a cookie. Ids over 256 characters are ignored.",
  parameters,
  produces: [SESSION_ID],
  create: ({ headerName, cookieName }) => {
    const headers = headerName === undefined ? [] : [headerName];
    return {
      produce({ request, setAttribute }) {
        const session =
          cookieName === undefined ? sessionIdIn(request.headers, headers) : cookieOf(request.headers, cookieName);
        if (session !== undefined && session.length <= MAX_SESSION_ID) setAttribute(SESSION_ID, session);
      },
    };
  },
});

/**
 * Returns the value of a cookie of the request, unchanged but without blanks around it (RFC 6265 4.2). The pairs may be in
 * several headers (RFC 9113 8.2.3). Of several cookies of that name the first counts, which is the one with the longest path.
 * @param name compared exactly
 * @returns undefined when there is none, or an empty one
 */
export function cookieOf(headers: HeaderList, name: string): string | undefined {
  for (let at = 0; at < headers.length; at++) {
    if (headers.keys[at] !== "cookie") continue;
    const value = cookieIn(headers.values[at]!, name);
    if (value !== undefined) return value === "" ? undefined : value;
  }
  return undefined;
}

function cookieIn(text: string, name: string): string | undefined {
  for (const pair of text.split(";")) {
    const equals = pair.indexOf("=");
    if (equals >= 0 && withoutBlanks(pair.slice(0, equals)) === name) return withoutBlanks(pair.slice(equals + 1));
  }
  return undefined;
}
