export async function demo(_args: string[]): Promise<number> { throw new Error('not there yet'); }
