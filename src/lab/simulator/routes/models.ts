import { type Handler, sendJson } from "./route.ts";

/** `GET /v1/models`: the base model under each of its names, then the adapters. */
export const listModels: Handler = ({ context, response }) => {
  const base = context.modelNames[0]!;
  const created = Math.floor(context.startedWall / 1000);
  const common = { object: "model", created, owned_by: "vllm" };
  sendJson(response, 200, {
    object: "list",
    data: [
      ...context.modelNames.map((id) => ({
        id,
        ...common,
        root: context.settings.model,
        parent: null,
        max_model_len: context.settings.maxModelLen,
      })),
      ...context.adapters.list().map(({ name, path }) => ({ id: name, ...common, root: path, parent: base })),
    ],
  });
};
