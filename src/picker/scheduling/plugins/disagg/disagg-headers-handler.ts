import { z } from "zod";
import type { Endpoint } from "../../../../base/inference/endpoint.ts";
import { defineRequestHook } from "../../../../base/plugin/define.ts";
import type { RequestHook } from "../../../../base/plugin/kinds.ts";

const PREFILLER = "x-prefiller-host-port";
const ENCODERS = "x-encoder-hosts-ports";

const parameters = z.strictObject({
  prefillProfile: z
    .string()
    .default("prefill")
    .describe("Name of the profile that chooses the endpoint that computes the prompt."),
  encodeProfile: z
    .string()
    .default("encode")
    .describe("Name of the profile that chooses the endpoints that encode images and sounds."),
});

const deprecated = "remove it: disagg-profile-handler and pd-profile-handler set these headers";

/** scheduling 3.7.1 */
export const disaggHeadersHandler = defineRequestHook({
  type: "disagg-headers-handler",
  describe:
    "Names the prefill and encode endpoints to the model server in `x-prefiller-host-port` and `x-encoder-hosts-ports`, and removes these headers from client requests.",
  deprecated,
  parameters,
  create: headersHandler,
});

/** Its older name. */
export const prefillHeaderHandler = defineRequestHook({
  type: "prefill-header-handler",
  describe: "Deprecated name of disagg-headers-handler.",
  deprecated,
  parameters,
  create: headersHandler,
});

function headersHandler({ prefillProfile, encodeProfile }: z.output<typeof parameters>): RequestHook {
  return {
    preRequest({ profiles, setHeader, removeHeader }) {
      removeHeader(PREFILLER);
      removeHeader(ENCODERS);
      // A down endpoint is the last resort of a profile. Here there is a better one: the decode endpoint does the work itself.
      const isThere = ({ state }: Endpoint): boolean => state !== "down";
      const prefill = profiles.get(prefillProfile)?.find(isThere);
      if (prefill !== undefined) setHeader(PREFILLER, prefill.hostPort);
      const encode = (profiles.get(encodeProfile) ?? []).filter(isThere);
      if (encode.length > 0) setHeader(ENCODERS, encode.map(({ hostPort }) => hostPort).join(","));
    },
  };
}
