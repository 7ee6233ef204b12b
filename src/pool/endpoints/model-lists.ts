import { z } from "zod";
import { defineDataSource, defineExtractor } from "../../base/plugin/define.ts";
import { MODELS_PATH } from "./model-client.ts";
import { checkPair, insecure, interval, notesOf, path, scheme, TLS_FILES } from "./page-parameters.ts";
import type { PoolEndpoint } from "./pool-endpoint.ts";
import { modelsIn, namesOf } from "./served-models.ts";
import type { SideReader } from "./side-pages.ts";

/** scheduling 1.8 */
export const modelsDataSource = defineDataSource({
  type: "models-data-source",
  describe: "Fetches the lists of models of the endpoints. Sluice reads its PEM files once, at the start.",
  payload: "models",
  parameters: z
    .strictObject({
      scheme: scheme("http").describe("Scheme of the lists: http or https."),
      path: path(MODELS_PATH).describe("Path of the lists."),
      insecureSkipVerify: insecure(true).describe("Read lists over https without checking the servers' certificates."),
      ...TLS_FILES,
      interval: interval(),
    })
    .superRefine(checkPair),
  notes: (settings) => notesOf(settings),
  create: ({ interval, ...settings }) => ({ ...settings, port: undefined, interval: interval || undefined }),
});

/** scheduling 1.8 */
export const modelsDataExtractor = defineExtractor({
  type: "models-data-extractor",
  describe:
    "Keeps the models that an endpoint lists, for `/debug/endpoints` and for plugins of your own. It does not change the routing.",
  payload: "models",
  create: () => ({ reads: "models" }),
});

const decoder = new TextDecoder();

/** Reads the answer to `GET /v1/models`. */
export class ModelListReader implements SideReader {
  read(page: Uint8Array, length: number, endpoint: PoolEndpoint): readonly string[] {
    const models = modelsIn(decoder.decode(page.subarray(0, length)));
    if (typeof models === "string") return [models];
    endpoint.listedModels = namesOf(models);
    return [];
  }

  forget(endpoint: PoolEndpoint): void {
    endpoint.listedModels = undefined;
  }
}
