import { z } from "zod";
import { duration } from "../../../base/plugin/define.ts";
import type { TokenizerSettings } from "../../../base/plugin/tokenizers.ts";

const modelTokenizerMap = z.record(z.string().min(1), z.string().min(1, "must not be empty"));

const files = {
  autoDiscoveryDir: z.string().default("/mnt/models"),
  autoDiscoveryTokenizerFileName: z.string().min(1, "must not be empty").default("tokenizer.json"),
  modelTokenizerMap: modelTokenizerMap.default({}),
};

/** The backend `local`: the names of files as in the reference's `LocalTokenizerConfig`, and how the threads run. */
export const localTokenizers = z.strictObject({
  ...files,
  workersCount: z.int().min(1).max(64).default(2),
  timeout: duration({ moreThan: 0 }).prefault("400ms"),
  prefixCacheMB: z.int().min(0).max(4096).default(64),
  chatTemplate: z.string().min(1, "must not be empty").optional(),
  chatTemplateContentFormat: z.enum(["auto", "string", "openai"]).default("auto"),
  defaultChatTemplateKwargs: z.record(z.string(), z.unknown()).default({}),
});

export type LocalTokenizers = z.output<typeof localTokenizers>;

/** Returns the settings of the threads. @param modelName whose tokenizer serves every request; undefined = that of its model */
export function tokenizerSettings(local: LocalTokenizers, modelName: string | undefined): TokenizerSettings {
  return {
    modelName,
    modelTokenizerMap: new Map(Object.entries(local.modelTokenizerMap)),
    directories: local.autoDiscoveryDir === "" ? [] : [local.autoDiscoveryDir],
    fileName: local.autoDiscoveryTokenizerFileName,
    workers: local.workersCount,
    cacheBytes: local.prefixCacheMB * 2 ** 20,
    chatTemplate: local.chatTemplate,
    chatTemplateContentFormat: local.chatTemplateContentFormat,
    chatTemplateKwargs: local.defaultChatTemplateKwargs,
  };
}

/**
 * The `tokenizersPoolConfig` of `precise-prefix-cache-scorer` in published configurations, as parameters of `token-producer`. Of
 * `hf`, only the folder of downloaded files counts: Sluice downloads nothing. The socket of `uds` is not asked.
 */
export const tokenizersPoolConfig = z
  .strictObject({
    modelName: z.string().min(1, "must not be empty"),
    workersCount: z.int().min(1).max(64).default(2),
    minPrefixOverlapRatio: z.number().min(0).max(1).optional(),
    local: z.strictObject(files).prefault({}),
    hf: z
      .strictObject({
        enabled: z.boolean().optional(),
        huggingFaceToken: z.string().optional(),
        tokenizersCacheDir: z.string().optional(),
      })
      .optional(),
    uds: z
      .strictObject({
        socketFile: z.string().optional(),
        useTCP: z.boolean().optional(),
        modelTokenizerMap: modelTokenizerMap.optional(),
      })
      .optional(),
  })
  .transform(({ modelName, workersCount, local, hf, uds }) => ({
    modelName,
    local: {
      ...local,
      workersCount,
      modelTokenizerMap: { ...uds?.modelTokenizerMap, ...local.modelTokenizerMap },
      // The folder of downloads is the more precise of the two, where a file names it.
      autoDiscoveryDir: hf?.tokenizersCacheDir || local.autoDiscoveryDir,
    },
  }));
