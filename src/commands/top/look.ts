import type { EndpointsFeed } from "../../wires/admin/feed/endpoints.ts";
import type { FeedHello } from "../../wires/admin/feed/feed.ts";
import type { Overview } from "../../wires/admin/feed/overview.ts";
import type { QueuesFeed } from "../../wires/admin/feed/queues.ts";

/** What one look at a process found. */
export interface Look {
  readonly hello: FeedHello;
  readonly overview: Overview;
  /** Null where the process has none. */
  readonly endpoints: EndpointsFeed | null;
  readonly queues: QueuesFeed;
}
