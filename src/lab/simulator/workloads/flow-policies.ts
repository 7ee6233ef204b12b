/** The policies of `sluice simulate` that show flow control: without it, with its defaults, and with one thing more each. */
export const FLOW_POLICIES: readonly string[] = ["default", "flow-control", "holdback", "eviction", "token-fairness"];
