/** How much a process keeps and tells of its decisions. */
export interface ExplainSettings {
  /** Answers to requests that ask for it carry the decision. */
  readonly decisionHeader: boolean;
  /** One decision in this many is recorded in full; 0 = only those that are asked for. */
  readonly fullRecordsEvery: number;
}
