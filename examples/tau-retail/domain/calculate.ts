/** Digits, `+ - * / ( ) .` and blanks, to two decimals. */
import { insist } from './refused.js';

/** @throws Refused `NOT_AN_EXPRESSION`, also for a division by zero. */
export function calculate(expression: string): number {
  const tokens = expression.match(/\d+\.?\d*|\.\d+|[-+*/()]|[^\s]/g) ?? [];
  let at = 0;
  const next = (...wanted: string[]): string | undefined => (wanted.includes(tokens[at] ?? '') ? tokens[at++] : undefined);

  const sum = (): number => {
    let value = product();
    for (let sign = next('+', '-'); sign; sign = next('+', '-')) value += sign === '+' ? product() : -product();
    return value;
  };
  const product = (): number => {
    let value = factor();
    for (let sign = next('*', '/'); sign; sign = next('*', '/')) value = sign === '*' ? value * factor() : value / factor();
    return value;
  };
  const factor = (): number => {
    const sign = next('+', '-');
    if (sign) return sign === '-' ? -factor() : factor();
    if (next('(')) {
      const value = sum();
      insist(next(')') !== undefined, 'NOT_AN_EXPRESSION');
      return value;
    }
    const token = tokens[at++] ?? '';
    insist(/^[\d.]+$/.test(token), 'NOT_AN_EXPRESSION');
    return Number(token);
  };

  const value = sum();
  insist(at === tokens.length && Number.isFinite(value), 'NOT_AN_EXPRESSION');
  return Math.round(value * 100) / 100;
}
