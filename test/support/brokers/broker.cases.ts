import { afterEach, describe } from "vitest";
import { cancellationCases } from "./cases/cancellation.cases.ts";
import { claimCases } from "./cases/claim.cases.ts";
import { CaseContext } from "./cases/context.cases.ts";
import { dataLossCases } from "./cases/data-loss.cases.ts";
import { entryCases } from "./cases/entry.cases.ts";
import { figureCases } from "./cases/figures.cases.ts";
import type { BrokerHarness, CaseSettings } from "./cases/harness.cases.ts";
import { leaseCases } from "./cases/lease.cases.ts";
import { producerCases } from "./cases/producer.cases.ts";
import { retryCases } from "./cases/retry.cases.ts";

export { type BrokerHarness, type CaseSettings, queueOf } from "./cases/harness.cases.ts";

/** The cases that every broker with leases passes. @param make a harness on an empty store */
export function brokerCases(name: string, make: (settings: CaseSettings) => Promise<BrokerHarness>): void {
  describe(`broker cases: ${name}`, () => {
    const context = new CaseContext(make);
    afterEach(() => context.end());
    claimCases(context);
    retryCases(context);
    leaseCases(context);
    dataLossCases(context);
    entryCases(context);
    cancellationCases(context);
    figureCases(context);
    producerCases(context);
  });
}
