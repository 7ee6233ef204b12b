/** Where the simulation is simpler than the world: a reader who knows these can judge the figures. */
export const LEFT_OUT: readonly string[] = [
  "A step of an engine takes a time that is linear in what it computes (base, prompt tokens, context, sequences). The coefficients come from published figures; nothing was run on a GPU.",
  "Decisions take no virtual time, and neither do networks, gateways and tokenizers: real TTFTs are higher by theirs.",
  "The servers of a workload are alike and healthy: none fails, restarts, slows down, or joins while requests arrive.",
  "Speculative decoding, separate prefill and decode servers, KV caches outside the GPU and multimodal input do not take part.",
  "Clients wait as long as it takes: nobody cancels, times out, or tries again after a rejection.",
  "Prompts are synthetic text in which only shared prefixes matter; lengths are drawn from the workload's distribution, not from real traffic.",
  "Every request counts but those of a warm-up: those that drain at the end, too, and without a warm-up those that meet empty caches. Only the load spread is taken while requests arrive.",
];
