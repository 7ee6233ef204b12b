import type { EndpointRegistry } from "../../pool/endpoints/registry.ts";
import { SpareRoom, type SpareRoomParts } from "../flowcontrol/spare-room.ts";

/** Makes the room for background requests at the endpoints of a registry, and tells it what becomes of them. */
export function spareRoomOf(endpoints: EndpointRegistry, parts: SpareRoomParts): SpareRoom {
  const room = new SpareRoom(parts);
  endpoints.onAdded(() => room.changed());
  endpoints.onStateChanged((endpoint) => {
    if (endpoint.state === "down") room.forget(endpoint);
    room.changed();
  });
  endpoints.onModelsChanged(() => room.changed());
  return room;
}
