/** The profile whose endpoint computes the prompt in disaggregated serving: it is known by this name (scheduling 3.10.4). */
export const PREFILL_PROFILE = "prefill";
