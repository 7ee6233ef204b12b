/** From -1 to 1, smooth in `at`: the made-up figures of the same second and place are always the same. */
export const wave = (at: number, length: number, shift = 0): number => Math.sin((at + shift) / length);
