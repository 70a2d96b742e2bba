"""The quantiles and gamma functions that rankings need.

Functions that every ranking calls are pure Python: scipy's import takes 0.3 s of CPU time, about as long as the rest of
a command that ranks. The others (`binomial_tail`, `chi_square_quantile`) import scipy when they are called: when a
model's answers are judged, and when the blocks of a device seem to have two speeds.

Student's quantile of 95 % intervals equals scipy's to the last digit up to `EXACT_DEGREES` degrees of freedom, because
stored intervals were computed with scipy. The other functions agree with scipy's to 12 digits
(`tests/sweeps/test_distributions.py`). Methods: W. H. Press et al., Numerical Recipes (2007), chapter 6.
"""

import math
from functools import lru_cache
from statistics import NormalDist

# fmt: off
_UPPER_975 = (
    12.706204736174694, 4.302652729749462, 3.1824463052837078, 2.7764451051977934, 2.5705818356363146,
    2.4469118511449786, 2.364624251592784, 2.306004135204166, 2.262157162798205, 2.228138851986274, 2.200985160091639,
    2.1788128296672284, 2.1603686564627913, 2.144786687917804, 2.131449545559776, 2.1199052992212546,
    2.1098155778333156, 2.1009220402410382, 2.0930240544083087, 2.085963447265864, 2.0796138447276795,
    2.0738730679040254, 2.0686576104190486, 2.0638985616280245, 2.0595385527532972, 2.0555294386428735,
    2.0518305164802846, 2.0484071417952454, 2.045229642132703, 2.0422724563012378, 2.039513446396408,
    2.0369333434601016, 2.0345152974493383, 2.0322445093177186, 2.030107928250343, 2.0280940009804502,
    2.0261924630291093, 2.0243941639119694, 2.022690920036761, 2.021075390306273, 2.019540970441376,
    2.0180817028184443, 2.016692199227824, 2.0153675744437636, 2.014103388880846, 2.012895598919429,
    2.0117405137297655, 2.010634757624232, 2.0095752371292392, 2.008559112100761, 2.007583770315836,
    2.006646805061688, 2.0057459953178687, 2.0048792881880564, 2.0040447832891455, 2.003240718847872,
    2.002465459291007, 2.0017174841452356, 2.000995378088267, 2.0002978220142604, 1.999623584994939,
    1.9989715170333788, 1.998340542520741, 1.997729654317693, 1.9971379083920038, 1.9965644189523117,
    1.996008354025296, 1.9954689314298435, 1.9949454151072374, 1.994437111771186, 1.9939433678456255,
    1.9934635666618719, 1.992997125889855, 1.992543495180932, 1.9921021540022417, 1.9916726096446642,
    1.9912543953883846, 1.9908470688116906, 1.9904502102301285, 1.990063421254446, 1.9896863234569029,
    1.989318557136572, 1.9889597801751624, 1.9886096669757083, 1.9882679074772216, 1.98793420623902,
    1.9876082815890708, 1.9872898648311692, 1.986978699506281, 1.9866745407037683, 1.9863771544186177,
    1.98608631695113, 1.9858018143458227, 1.985523441866604, 1.9852510035054978, 1.984984311522457,
    1.9847231860139845, 1.9844674545084815, 1.9842169515864174, 1.9839715185235518, 1.983731002955606,
    1.9834952585628793, 1.9832641447734565, 1.9830375264837259, 1.9828152737950475, 1.9825972617655006,
    1.9823833701756908, 1.982173483307727, 1.9819674897364825, 1.981765282132372, 1.9815667570749007,
    1.9813718148763053, 1.981180359414661, 1.9809922979758567, 1.9808075411039094, 1.9806260024590894,
    1.9804475986834025, 1.980272249272974, 1.9800998764569397, 1.9799304050824402,
)
# fmt: on
"""The quantiles scipy.special.stdtrit(degrees, 0.975) for 1, 2, 3 ... degrees of freedom."""

EXACT_DEGREES = len(_UPPER_975)
_HALF_TAIL = 0.975
_LARGE = 1e7
"""With more degrees of freedom, Student's distribution is the normal one to 12 digits after one correction."""
_STEPS = 200
_SMALL = 1e-300
_SCALE_STEPS = 100
_NORMAL_STEP = 0.125
_WIDTH_STEP = 0.05
_WIDEST = 9.0
"""The range of a thousand standard normal variables is wider in one of 10 million cases."""
_TRAPEZOIDS = 800
_NOTHING = 25.0
"""exp(-25) of the largest value is negligible."""


@lru_cache(maxsize=4096)
def student_t_quantile(degrees: float, probability: float) -> float:
    """Return the quantile of Student's t distribution at `probability` (0 to 1, both excluded); `degrees` may be
    infinite."""
    if not (degrees > 0.0 and 0.0 < probability < 1.0):
        raise ValueError(f"Student's t has no quantile at {probability} with {degrees} degrees of freedom")
    if probability == _HALF_TAIL and degrees <= EXACT_DEGREES and degrees == int(degrees):
        return _UPPER_975[int(degrees) - 1]
    if probability == 0.5:
        return 0.0
    if probability < 0.5:
        return -_upper(degrees, probability)
    return _upper(degrees, 1.0 - probability)


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution; infinite at 0 and 1."""
    if probability <= 0.0 or probability >= 1.0:
        return math.copysign(math.inf, probability - 0.5)
    return NormalDist().inv_cdf(probability)


def binomial_tail(hits: int, trials: int, chance: float) -> float:
    """Return the probability of `hits` or more of `trials`, each with the probability `chance`."""
    from scipy.special import bdtrc

    return 1.0 if hits <= 0 else 0.0 if hits > trials else float(bdtrc(hits - 1, trials, chance))


def noncentral_t_above(degrees: float, limit: float, shift: float) -> float:
    """Return the probability that a noncentral t variable is above `limit`; `shift` is its noncentrality.

    It is the mean of Phi(shift - limit * s) over s, the root of a chi-square variable divided by its degrees. The
    trapezoidal rule over log s is good to 8 digits (6 for one degree of freedom), as the density vanishes smoothly at
    both ends.
    """
    width = math.sqrt(_NOTHING / degrees)
    low, high = -width - _NOTHING / degrees, min(width, math.log(1.0 + width))
    constant = math.log(2.0) + degrees / 2.0 * math.log(degrees / 2.0) - math.lgamma(degrees / 2.0)
    total = 0.0
    for step in range(_TRAPEZOIDS + 1):
        log_s = low + (high - low) * step / _TRAPEZOIDS
        s = math.exp(log_s)
        total += math.exp(constant + degrees * (log_s - s * s / 2.0)) * math.erfc((limit * s - shift) / math.sqrt(2.0))
    return total / 2.0 * (high - low) / _TRAPEZOIDS


def chi_square_quantile(degrees: float, above: float) -> float:
    """Return the value that a chi-square variable exceeds with the probability `above` (0 to 1, both excluded)."""
    from scipy.special import chdtri

    return float(chdtri(degrees, above))


@lru_cache(maxsize=4096)
def studentized_range_quantile(count: int, degrees: float, above: float) -> float:
    """Return the value that the range of `count` independent standard normal variables, divided by an independent root
    of a chi-square over its `degrees` of freedom (which may be infinite), exceeds with the probability `above`.

    The value is right to four digits, which is more than a comparison needs. J. W. Tukey, The problem of multiple
    comparisons (1953). Raises `ValueError` for less than two variables.
    """
    if count < 2:
        raise ValueError(f"{count} variables have no range")
    # The quantile lies between that of two variables, and that of all pairs by Bonferroni's inequality.
    low, high = (math.sqrt(2.0) * student_t_quantile(degrees, 1.0 - above / n) for n in (2, count * (count - 1)))
    if count == 2:
        return low
    scales = _scales(degrees)
    while high - low > 1e-6 * high:
        middle = (low + high) / 2.0
        exceeded = sum(weight * _range_above(count, middle * scale) for scale, weight in scales)
        low, high = (middle, high) if exceeded > above else (low, middle)
    return (low + high) / 2.0


def digamma(x: float) -> float:
    """Return the derivative of the logarithm of the gamma function, for x > 0."""
    shift = 0.0
    while x < 12.0:
        shift -= 1.0 / x
        x += 1.0
    inverse = 1.0 / (x * x)
    series = _horner(inverse, (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12))
    return shift + math.log(x) - 0.5 / x - inverse * series


def trigamma(x: float) -> float:
    """Return the derivative of `digamma`."""
    shift = 0.0
    while x < 12.0:
        shift += 1.0 / (x * x)
        x += 1.0
    inverse = 1.0 / (x * x)
    series = _horner(inverse, (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6))
    return shift + 1.0 / x + 0.5 * inverse + inverse / x * series


def tetragamma(x: float) -> float:
    """Return the derivative of `trigamma`."""
    shift = 0.0
    while x < 12.0:
        shift -= 2.0 / (x * x * x)
        x += 1.0
    inverse = 1.0 / (x * x)
    series = _horner(inverse, (1 / 2, -1 / 6, 1 / 6, -3 / 10, 5 / 6, -691 / 210, 35 / 2))
    return shift - inverse - inverse / x - inverse * inverse * series


def _upper(degrees: float, tail: float) -> float:
    """Return the value that Student's t exceeds with the probability `tail` < 0.5."""
    z = -NormalDist().inv_cdf(tail)
    if degrees > _LARGE:
        return z + (z**3 + z) / (4.0 * degrees) if math.isfinite(degrees) else z
    # One degree of freedom is a Cauchy distribution, whose tail is longest: every quantile is between `low` and `high`.
    low, high = z, 1.0 / math.tan(math.pi * tail) if degrees >= 1.0 else math.inf
    x = min(high, z + (z**3 + z) / (4.0 * degrees))
    constant = _gamma_ratio(degrees / 2.0) / math.sqrt(math.pi * degrees)
    for _ in range(_STEPS):
        above = _student_above(degrees, x)
        low, high = (x, high) if above > tail else (low, x)
        density = constant * (1.0 + x * x / degrees) ** (-(degrees + 1.0) / 2.0)
        # Newton's method on the logarithm of the tail, which is nearly straight in log x.
        step = (math.log(above) - math.log(tail)) * above / (density * x)
        new = x * math.exp(max(-2.0, min(2.0, step)))
        if not low <= new <= high:
            new = (low + high) / 2.0 if math.isfinite(high) else 2.0 * x
        if abs(new - x) <= 1e-15 * x:
            return new
        x = new
    return x


def _student_above(degrees: float, x: float) -> float:
    """Return the probability that Student's t exceeds x > 0: half the regularized incomplete beta function I(degrees/2,
    1/2)."""
    a, b = degrees / 2.0, 0.5
    share = degrees / (degrees + x * x)
    beside = x * x / (degrees + x * x)
    # The factor 1 / B(a, 1/2) is the ratio of gamma functions over the root of pi.
    front = _gamma_ratio(a) / math.sqrt(math.pi) * math.exp(-a * math.log1p(x * x / degrees)) * math.sqrt(beside)
    if share < (a + 1.0) / (a + b + 2.0):
        return 0.5 * front / a * _beta_fraction(a, b, share)
    return 0.5 * (1.0 - front / b * _beta_fraction(b, a, beside))


def _scales(degrees: float) -> list[tuple[float, float]]:
    """Return values of the root of a chi-square over its degrees of freedom, evenly spaced in their logarithms, each
    with its probability."""
    if degrees > _LARGE:
        return [(1.0, 1.0)]
    # The density outside of these limits is less than exp(-18) of its peak.
    low, high = -math.sqrt(18.0 / degrees) - 18.0 / degrees, min(math.sqrt(18.0 / degrees), 2.2)
    logs = [low + (high - low) * step / _SCALE_STEPS for step in range(_SCALE_STEPS + 1)]
    weights = [math.exp(degrees * (log - math.expm1(2.0 * log) / 2.0)) for log in logs]
    total = math.fsum(weights)
    return [(math.exp(log), weight / total) for log, weight in zip(logs, weights, strict=True)]


def _range_above(count: int, width: float) -> float:
    """Return the probability that the range of `count` standard normal variables is more than `width`. Between the
    entries of a table, the logarithm of the probability is interpolated linearly."""
    place, share = divmod(width / _WIDTH_STEP, 1.0)
    table = _log_range_above(count)
    if place + 1 >= len(table):
        return 0.0
    left, right = table[int(place)], table[int(place) + 1]
    return math.exp(left + share * (right - left))


@lru_cache(maxsize=256)
def _log_range_above(count: int) -> tuple[float, ...]:
    """Return the log probabilities that the range exceeds 0, `_WIDTH_STEP` and so on, by the trapezoidal rule over the
    smallest of the variables."""
    cells = [step * _NORMAL_STEP for step in range(round(-8.0 / _NORMAL_STEP), round(8.0 / _NORMAL_STEP) + 1)]
    density = [_NORMAL_STEP * NormalDist().pdf(z) for z in cells]

    def within(width: float) -> float:
        shares = ((math.erf((z + width) / math.sqrt(2.0)) - math.erf(z / math.sqrt(2.0))) / 2.0 for z in cells)
        return count * math.fsum(height * share ** (count - 1) for height, share in zip(density, shares, strict=True))

    widths = [step * _WIDTH_STEP for step in range(round(_WIDEST / _WIDTH_STEP) + 1)]
    return tuple(math.log(max(1.0 - within(width), _SMALL)) for width in widths)


def _gamma_ratio(a: float) -> float:
    """Return gamma(a + 1/2) / gamma(a), without the cancellation of two large logarithms."""
    factor = 1.0
    while a < 25.0:
        factor *= a / (a + 0.5)
        a += 1.0
    series = _horner(1.0 / a, (1.0, -1 / 8, 1 / 128, 5 / 1024, -21 / 32768, -399 / 262144, 869 / 4194304))
    return factor * math.sqrt(a) * series


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1.0 / _not_zero(1.0 - (a + b) * x / (a + 1.0))
    fraction = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        d, c = 1.0 / _not_zero(1.0 + even * d), _not_zero(1.0 + even / c)
        fraction *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        d, c = 1.0 / _not_zero(1.0 + odd * d), _not_zero(1.0 + odd / c)
        fraction *= d * c
        if abs(d * c - 1.0) < 1e-16:
            break
    return fraction


def _horner(x: float, coefficients: tuple[float, ...]) -> float:
    """Return the value of the polynomial at `x`; the constant coefficient comes first."""
    total = 0.0
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def _not_zero(value: float) -> float:
    return value if abs(value) > _SMALL else _SMALL
