/** The pod label that names the stages of disaggregated serving for which the pod exists (scheduling 3.7.1). */
export const ROLE_LABEL = "llm-d.ai/role";

/** The roles that decode. An endpoint without the label decodes, too. */
export const DECODE_ROLES = ["decode", "prefill-decode", "both", "encode-prefill-decode"] as const;

/** The roles that prefill. */
export const PREFILL_ROLES = ["prefill", "encode-prefill", "prefill-decode", "both", "encode-prefill-decode"] as const;
