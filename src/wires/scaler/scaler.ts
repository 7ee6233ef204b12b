import type { Clock } from "../../base/clock/clock.ts";
import { oneRequest } from "../../base/grpc/one-request.ts";
import { GRPC_STATUS } from "../../base/grpc/status.ts";
import type { GrpcHandler, GrpcStream } from "../../base/grpc/transport.ts";
import { ActivityStreams, type Refusal } from "./activity-streams.ts";
import {
  decodeMetricsRequest,
  decodeRef,
  figureResponse,
  isActiveResponse,
  type MetricsRequest,
  SCALER_SERVICE,
  type ScaledObjectRef,
} from "./messages.ts";
import type { ScalerBacklog, ScalerSource } from "./source.ts";
import { quoted, TRIGGER_METRICS, type Trigger, type TriggerMetric, triggerOf } from "./trigger.ts";

export interface ScalerParts {
  readonly clock: Clock;
  readonly source: ScalerSource;
  /** Whether the queues of this replica are those that count; false = another replica leads. */
  readonly leads: () => boolean;
}

/** A trigger whose figures this process knows. */
interface Known {
  readonly trigger: Trigger;
  readonly backlog: ScalerBacklog;
}

const DRAINS: Refusal = { status: GRPC_STATUS.unavailable, message: "the process drains; ask another replica" };
const STANDS_BY: Refusal = {
  status: GRPC_STATUS.unavailable,
  message: "this replica is not the leader and has no queues; ask the leader",
};
const IS_OFF: Refusal = {
  status: GRPC_STATUS.failedPrecondition,
  message: "flow control is off, so no request waits; add flowControl to the featureGates of the configuration",
};

/** The external scaler of KEDA: says whether there is work, and how much waits. */
export class Scaler {
  readonly #parts: ScalerParts;
  readonly #streams: ActivityStreams;
  #draining = false;

  constructor(parts: ScalerParts) {
    this.#parts = parts;
    this.#streams = new ActivityStreams(parts.clock);
  }

  /** The methods of the service by path. */
  handlers(): Map<string, GrpcHandler> {
    return new Map<string, GrpcHandler>([
      [`/${SCALER_SERVICE}/IsActive`, oneRequest(decodeRef, (ref, stream) => this.#isActive(ref, stream))],
      [`/${SCALER_SERVICE}/StreamIsActive`, oneRequest(decodeRef, (ref, stream) => this.#streamIsActive(ref, stream))],
      [`/${SCALER_SERVICE}/GetMetricSpec`, oneRequest(decodeRef, (ref, stream) => this.#metricSpec(ref, stream))],
      [
        `/${SCALER_SERVICE}/GetMetrics`,
        oneRequest(decodeMetricsRequest, (asked, stream) => this.#metrics(asked, stream)),
      ],
    ]);
  }

  /** Ends the streams. Calls from here on are UNAVAILABLE. */
  drain(): void {
    this.#draining = true;
    this.#streams.end(DRAINS);
  }

  #isActive(ref: ScaledObjectRef, stream: GrpcStream): undefined {
    const known = this.#known(ref);
    if ("status" in known) stream.end(known.status, known.message);
    else answer(stream, isActiveResponse(this.#hasWork(known)));
  }

  #streamIsActive(ref: ScaledObjectRef, stream: GrpcStream): (() => void) | undefined {
    const asked = this.#known(ref);
    if ("status" in asked) {
      stream.end(asked.status, asked.message);
      return undefined;
    }
    return this.#streams.open(stream, {
      object: `${ref.namespace}/${ref.name}`,
      active: () => {
        const known = this.#known(ref);
        return "status" in known ? known : this.#hasWork(known);
      },
      onWork: (listener) => asked.backlog.onEntered(listener),
    });
  }

  #metricSpec(ref: ScaledObjectRef, stream: GrpcStream): undefined {
    const known = this.#known(ref);
    if ("status" in known) stream.end(known.status, known.message);
    else answer(stream, figureResponse(TRIGGER_METRICS[known.trigger.metric], known.trigger.target));
  }

  #metrics({ ref, metricName }: MetricsRequest, stream: GrpcStream): undefined {
    const known = this.#known(ref);
    if ("status" in known) {
      stream.end(known.status, known.message);
      return;
    }
    const { metric, priority } = known.trigger;
    const name = TRIGGER_METRICS[metric];
    if (metricName !== "" && metricName !== name) {
      stream.end(
        GRPC_STATUS.invalidArgument,
        `the metadata selects the metric ${name}, but the call asks for ${quoted(metricName)}`,
      );
      return;
    }
    answer(stream, figureResponse(name, figureOf(metric, known.backlog.figures(priority))));
  }

  #known({ metadata }: ScaledObjectRef): Known | Refusal {
    if (this.#draining) return DRAINS;
    const trigger = triggerOf(metadata);
    if (typeof trigger === "string") return { status: GRPC_STATUS.invalidArgument, message: trigger };
    if (!this.#parts.leads()) return STANDS_BY;
    const { backlog } = this.#parts.source;
    return backlog === undefined ? IS_OFF : { trigger, backlog };
  }

  /** Requests in flight of any priority count: their servers must stay. */
  #hasWork({ trigger, backlog }: Known): boolean {
    return backlog.figures(trigger.priority).requests > 0 || this.#parts.source.inFlight > 0;
  }
}

function figureOf(metric: TriggerMetric, figures: ReturnType<ScalerBacklog["figures"]>): number {
  switch (metric) {
    case "queuedRequests":
      return figures.requests;
    case "queuedBytes":
      return figures.bytes;
    case "queuedTokens":
      return figures.tokens;
    case "predictedWaitSeconds":
      return figures.waitSeconds;
  }
}

function answer(stream: GrpcStream, message: Uint8Array): undefined {
  stream.send(message);
  stream.end(GRPC_STATUS.ok);
}
