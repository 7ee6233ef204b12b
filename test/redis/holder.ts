import { join } from "node:path";
import type { Broker, Claim } from "../../src/async/brokers/broker.ts";
import { delay } from "../../src/base/clock/clock.ts";
import { realClock } from "../../src/base/clock/real.ts";
import { ROOT, TestProcess } from "../support/process.ts";
import { answered, direct, LEASES, Q, settingsOf, started } from "./setup.ts";

/**
 * A process that claims `count` messages and holds them, renewing their leases. It says `holds <ids>`; when the key `go`
 * stands in Redis it settles them and says `outcomes <json>`.
 */
export function startHolder(url: string, count: number, claimTtl: number): TestProcess {
  return new TestProcess(process.execPath, [
    join(ROOT, "test", "redis", "holder.ts"),
    url,
    String(count),
    String(claimTtl),
  ]);
}

async function hold(url: string, count: number, claimTtl: number): Promise<void> {
  const { broker } = await started(settingsOf(url, { leases: { ...LEASES, claimTtl } }));
  const redis = await direct(url);
  const claims: Claim[] = [];
  while (claims.length < count) claims.push(...(await claimSome(broker, count - claims.length)));
  process.stdout.write(`holds ${claims.map(({ message }) => message.request.id).join(",")}\n`);
  while ((await redis.send(["EXISTS", "go"])) === 0) {
    await broker.renew(claims.filter(({ lost }) => !lost));
    await delay(realClock, claimTtl / 5);
  }
  process.stdout.write(`outcomes ${JSON.stringify(await broker.settle(claims.map(answered)))}\n`);
  await broker.close();
  redis.close();
}

const claimSome = async (broker: Broker, max: number): Promise<readonly Claim[]> =>
  (await broker.claim(Q, { max, expired: 0 })).claims;

if (import.meta.main) await hold(process.argv[2]!, Number(process.argv[3]), Number(process.argv[4]));
