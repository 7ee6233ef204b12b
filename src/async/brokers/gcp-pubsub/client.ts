import type { PubSub, protos, v1 } from "@google-cloud/pubsub";
import { messageOf, SluiceError } from "../../../base/inference/errors.ts";
import type { ResultMessage } from "../messages/message.ts";
import { encodeResult, errorResult } from "../messages/result.ts";

/** The codes of google.rpc.Code that the broker tells apart. */
export const STATUS = { INVALID_ARGUMENT: 3, DEADLINE_EXCEEDED: 4, PERMISSION_DENIED: 7 } as const;

/** Entries of one Acknowledge, ModifyAckDeadline or Publish request; ids are some 200 bytes long, the limit is 512 KiB. */
const PER_REQUEST = 1000;

/** Longest waits, milliseconds: for messages, for a change of leases, for a publication, and for the readiness probe. */
const LIMITS = { pull: 60_000, lease: 10_000, publish: 15_000, lookUp: 2_500 } as const;

/** A message as the service delivers it. */
export type Received = protos.google.pubsub.v1.IReceivedMessage;

/** A subscription as the service describes it. */
export type SubscriptionInfo = protos.google.pubsub.v1.ISubscription;

/** The outcome of a change of leases. Ids in neither group succeeded. */
export interface AckReport {
  /** Ids that are no lease any more (only subscriptions with exactly-once delivery report them). */
  readonly lost: ReadonlySet<string>;
  /** Ids that can be tried again, with the reason. */
  readonly failed: ReadonlyMap<string, string>;
}

/**
 * The calls of Google's client that the broker makes. Each is bounded in time, and the client never repeats one: the broker
 * decides what it repeats, and when.
 */
export class PubSubClient {
  /** False with an emulator: it has no Cloud Monitoring. */
  readonly monitored: boolean;
  readonly #pubsub: PubSub;
  readonly #subscriber: v1.SubscriberClient;
  readonly #publisher: v1.PublisherClient;
  readonly #projectId: string;
  readonly #topic: string;

  private constructor(pubsub: PubSub, clients: [v1.SubscriberClient, v1.PublisherClient], place: PubSubPlace) {
    this.monitored = !pubsub.isEmulator;
    this.#pubsub = pubsub;
    [this.#subscriber, this.#publisher] = clients;
    this.#projectId = place.projectId;
    this.#topic = resourceName(place, "topics", place.resultTopicId);
  }

  /**
   * Loads Google's client, which finds credentials and `PUBSUB_EMULATOR_HOST` by its own rules. Connects to nothing.
   * @throws SluiceError PUBSUB_CLIENT_MISSING
   */
  static async load(place: PubSubPlace): Promise<PubSubClient> {
    const { PubSub, v1 } = await loadPubSub();
    const pubsub = new PubSub({
      projectId: place.projectId,
      ...(place.endpoint === undefined ? {} : { apiEndpoint: place.endpoint }),
    });
    const found = await pubsub.getClientConfig();
    // An emulator asks for no credentials, but without this the client would look for Google's metadata server.
    const config = (
      pubsub.isEmulator ? { ...found, clientOptions: { universeDomain: "googleapis.com" } } : found
    ) as ConstructorParameters<typeof v1.SubscriberClient>[0];
    return new PubSubClient(pubsub, [new v1.SubscriberClient(config), new v1.PublisherClient(config)], place);
  }

  /** Waits for messages; returns none when none came for a while. @param max 1..1,000 */
  async pull(subscription: string, max: number, signal: AbortSignal): Promise<readonly Received[]> {
    const [answer] = await this.#subscriber.pull(
      { subscription: this.#subscription(subscription), maxMessages: max },
      { timeout: LIMITS.pull, retry: null, signal },
    );
    return answer.receivedMessages ?? [];
  }

  /** Never rejects. */
  acknowledge(subscription: string, ackIds: readonly string[]): Promise<AckReport> {
    return inChunks(ackIds, (chunk) =>
      this.#subscriber.acknowledge(
        { subscription: this.#subscription(subscription), ackIds: chunk },
        { timeout: LIMITS.lease, retry: null },
      ),
    );
  }

  /** Never rejects. @param seconds 0..600 from now; 0 = give back at once */
  modifyAckDeadline(subscription: string, ackIds: readonly string[], seconds: number): Promise<AckReport> {
    return inChunks(ackIds, (chunk) =>
      this.#subscriber.modifyAckDeadline(
        { subscription: this.#subscription(subscription), ackIds: chunk, ackDeadlineSeconds: seconds },
        { timeout: LIMITS.lease, retry: null },
      ),
    );
  }

  /** Resolves when the service has confirmed all of them. @param entries at most 1,000 and 10 MB together */
  async publish(entries: readonly Uint8Array[]): Promise<void> {
    await this.#publisher.publish(
      { topic: this.#topic, messages: entries.map((data) => ({ data })) },
      { timeout: LIMITS.publish, retry: null },
    );
  }

  async lookUp(subscription: string): Promise<SubscriptionInfo> {
    const [info] = await this.#subscriber.getSubscription(
      { subscription: this.#subscription(subscription) },
      { timeout: LIMITS.lookUp, retry: null },
    );
    return info;
  }

  /** GETs JSON with the credentials of this client, for what Google serves outside Pub/Sub. */
  async get(url: string): Promise<unknown> {
    const answer = await this.#pubsub.auth.request({ url, timeout: LIMITS.lease });
    return answer.data;
  }

  async close(): Promise<void> {
    await Promise.all([this.#subscriber.close(), this.#publisher.close(), this.#pubsub.close()]);
  }

  #subscription(id: string): string {
    return resourceName({ projectId: this.#projectId }, "subscriptions", id);
  }
}

/** The project for results, and the server. */
export interface PubSubPlace {
  readonly projectId: string;
  readonly resultTopicId: string;
  /** `host:port` of an emulator; undefined = the environment decides. */
  readonly endpoint?: string | undefined;
}

/** The code of a gRPC error; -1 for anything else. */
export function statusOf(error: unknown): number {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "number" ? code : -1;
}

/** The full resource name of an id; a full name stays as it is. */
function resourceName(place: { readonly projectId: string }, kind: string, id: string): string {
  return id.startsWith("projects/") ? id : `projects/${place.projectId}/${kind}/${id}`;
}

type GoogleClient = typeof import("@google-cloud/pubsub");

/** Google's client. Only this transport needs it, and users install it themselves. @throws SluiceError PUBSUB_CLIENT_MISSING */
export async function loadPubSub(
  load: () => Promise<GoogleClient> = () => import("@google-cloud/pubsub"),
): Promise<GoogleClient> {
  try {
    return await load();
  } catch (cause) {
    throw new SluiceError(
      "PUBSUB_CLIENT_MISSING",
      `the transport gcp-pubsub needs the package @google-cloud/pubsub (npm install @google-cloud/pubsub@6): ${messageOf(cause)}`,
      { cause },
    );
  }
}

async function inChunks(ackIds: readonly string[], send: (chunk: string[]) => Promise<unknown>): Promise<AckReport> {
  const lost = new Set<string>();
  const failed = new Map<string, string>();
  const chunks: Promise<void>[] = [];
  for (let at = 0; at < ackIds.length; at += PER_REQUEST) {
    const chunk = ackIds.slice(at, at + PER_REQUEST);
    chunks.push(
      send(chunk).then(
        () => undefined,
        (error: unknown) => sortFailures(chunk, error, lost, failed),
      ),
    );
  }
  await Promise.all(chunks);
  return { lost, failed };
}

/**
 * With exactly-once delivery, the error details name the ids that failed, each with its own code; the other ids succeeded.
 * Without such details all ids failed. Source: the comments of AcknowledgeConfirmation in pubsub.proto, and the code of
 * Google's own stream.
 */
function sortFailures(ackIds: readonly string[], error: unknown, lost: Set<string>, failed: Map<string, string>): void {
  const details =
    error instanceof Error && "errorInfoMetadata" in error
      ? (error.errorInfoMetadata as Readonly<Record<string, unknown>> | undefined)
      : undefined;
  const named = details === undefined ? [] : ackIds.filter((id) => typeof details[id] === "string");
  if (named.length === 0) for (const id of ackIds) failed.set(id, messageOf(error));
  for (const id of named) {
    const code = String(details![id]);
    if (code.startsWith("PERMANENT_")) lost.add(id);
    else failed.set(id, code);
  }
}

/** Limits of one Publish request: 1,000 messages and 10 MB, with room for the rest of the request. */
const ENTRIES = 1000;
const BYTES = 9_500_000;

/**
 * Publishes results and waits until the service has confirmed them. A result larger than the largest message can never be sent.
 * A short result that says so, with the status of the answer, replaces it.
 * @returns for each result undefined when it is confirmed, else the reason why not
 */
export async function publishResults(
  client: PubSubClient,
  results: readonly ResultMessage[],
): Promise<readonly (string | undefined)[]> {
  const entries = results.map(encodeForTopic);
  const problems = new Array<string | undefined>(results.length);
  const batches: Promise<void>[] = [];
  for (let from = 0; from < entries.length; ) {
    let to = from;
    let bytes = 0;
    while (to < entries.length && to - from < ENTRIES && (to === from || bytes + entries[to]!.length <= BYTES))
      bytes += entries[to++]!.length;
    batches.push(publishBatch(client, entries, from, to, problems));
    from = to;
  }
  await Promise.all(batches);
  return problems;
}

async function publishBatch(
  client: PubSubClient,
  entries: readonly Uint8Array[],
  from: number,
  to: number,
  problems: (string | undefined)[],
): Promise<void> {
  try {
    await client.publish(entries.slice(from, to));
  } catch (error) {
    // One message that the topic refuses (because of a schema, for example) must not delay the others.
    if (statusOf(error) === STATUS.INVALID_ARGUMENT && to - from > 1)
      for (let at = from; at < to; at++) await publishBatch(client, entries, at, at + 1, problems);
    else problems.fill(messageOf(error), from, to);
  }
}

function encodeForTopic(result: ResultMessage): Uint8Array {
  const entry = Buffer.from(encodeResult(result));
  if (entry.length <= BYTES) return entry;
  const problem = `the result has ${entry.length} bytes, but a Pub/Sub message holds at most ${BYTES} bytes`;
  return Buffer.from(
    encodeResult({ ...errorResult(result.id, "INFERENCE_ERROR", problem), statusCode: result.statusCode }),
  );
}

const METRIC = "pubsub.googleapis.com/subscription/num_undelivered_messages";

/** Greatest age of a figure, milliseconds: Cloud Monitoring shows it minutes late. */
const WINDOW = 300_000;

/**
 * The number of unacknowledged messages of a subscription, as Cloud Monitoring last saw it (async-processor 5.4).
 * @param now Unix milliseconds
 * @returns NaN when there was no figure within the last 5 minutes
 * @throws the errors of `get`
 */
export async function undeliveredMessages(
  get: (url: string) => Promise<unknown>,
  projectId: string,
  subscription: string,
  now: number,
): Promise<number> {
  const query = new URLSearchParams({
    filter: `metric.type="${METRIC}" AND resource.labels.subscription_id="${subscription.split("/").at(-1)}"`,
    "interval.startTime": new Date(now - WINDOW).toISOString(),
    "interval.endTime": new Date(now).toISOString(),
    // Points come newest first.
    pageSize: "1",
  });
  const answer = (await get(
    `https://monitoring.googleapis.com/v3/projects/${encodeURIComponent(projectId)}/timeSeries?${query}`,
  )) as TimeSeriesPage | null | undefined;
  const value = answer?.timeSeries?.[0]?.points?.[0]?.value?.int64Value;
  return value === undefined ? Number.NaN : Number(value);
}

interface TimeSeriesPage {
  readonly timeSeries?: readonly {
    readonly points?: readonly { readonly value?: { readonly int64Value?: string | number } }[];
  }[];
}
