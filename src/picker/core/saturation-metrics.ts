import type { InferenceCore } from "./inference-core.ts";

/**
 * Shows how saturated the pool is, and how many endpoints the detector could not judge (scheduling 5.3, 8.6): from 1 on
 * sheddable requests are refused. Worked out whenever the page is rendered.
 * @returns what stops it
 */
export function showSaturation(core: InferenceCore, poolName: string): () => void {
  const { registry, metrics } = core;
  const saturation = metrics.poolSaturation.with(poolName, "effective");
  return registry.onRender(() => {
    // Where the detector fails, nothing is known: the page must not go on showing what was.
    saturation.set(Number.NaN);
    metrics.staleEndpoints.clear();
    const { detector, value, staleEndpoints } = core.saturation();
    saturation.set(value);
    if (staleEndpoints !== undefined) metrics.staleEndpoints.with(detector).set(staleEndpoints);
  });
}
