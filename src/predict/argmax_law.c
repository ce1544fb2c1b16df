/*
 * argmax_law.c: see argmax_law.h. With θ = acos r the odds against the same key, over n − 1, are
 *
 *     e^−ξ = θ/(π − θ) · exp(r [E + (S − E)(1 − r)²]),
 *
 * exact for n = 2. S and E make the slope at r = 0 and the one by θ at r = 1 exact.
 */
#include "predict/argmax_law.h"

#include <math.h>

#define PI 3.14159265358979323846

/* The largest of n normal numbers in the mean, and the density at 0 of what it leads by. */
static void extremes(double *largest, double *tied, double n)
{
    const double step = 0.05, low = -9, high = 12;
    double of_largest = 0, of_tied = 0;
    for (int i = 0; low + i * step < high; i++) {
        double x = low + i * step, density = exp(-x * x / 2) / sqrt(2 * PI);
        double ln_below = x < 0 ? log(erfc(-x / sqrt(2)) / 2) : log1p(-erfc(x / sqrt(2)) / 2);
        of_largest += x * density * exp((n - 1) * ln_below);
        of_tied += density * density * exp((n - 2) * ln_below);
    }
    *largest = n * step * of_largest;
    *tied = n * (n - 1) * step * of_tied;
}

rs_argmax_law rs_argmax_law_of(double n)
{
    double largest, tied;
    extremes(&largest, &tied, n);
    double slope =
        largest * largest / (n - 1); /* of the probability at r = 0: Hermite's first terms */
    return (rs_argmax_law){
        .n = n,
        .start = 4 / PI - slope * n * n / (n - 1),
        /* it falls by θ tied/√π: a lead below √2 θ times a normal number is lost */
        .end = log(sqrt(PI) * tied / (n - 1))};
}

/* ln of the correction. */
static double correction(const rs_argmax_law *law, double angle)
{
    double apart = 2 * sin(angle / 2) * sin(angle / 2);
    return (1 - apart) * (law->end + (law->start - law->end) * apart * apart);
}

double rs_argmax_exponent(const rs_argmax_law *law, double angle)
{
    return log(PI - angle) - log(angle) - correction(law, angle);
}

double rs_argmax_angle(const rs_argmax_law *law, double exponent)
{
    enum { HALVINGS = 60 };
    double low = -740, high = log(PI / 2); /* of ln θ */
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;
        if (rs_argmax_exponent(law, exp(middle)) > exponent)
            low = middle;
        else
            high = middle;
    }
    return exp((low + high) / 2);
}

/* −dξ/dθ. */
static double steepness(const rs_argmax_law *law, double angle)
{
    double by = law->start - law->end, cosine = cos(angle), sine = sin(angle);
    double apart = 2 * sin(angle / 2) * sin(angle / 2);
    return 1 / angle + 1 / (PI - angle) - sine * (law->end + by * apart * apart) +
           2 * by * cosine * apart * sine;
}

double rs_argmax_moved(double *ln_lost, const rs_argmax_law *law, double equal, double ln_apart)
{
    const double small = 1e-7, most = 700; /* beyond it the angle is no double */
    double from = fmin(equal, most), angle = rs_argmax_angle(law, from), cosine = cos(angle);
    double apart = 2 * sin(angle / 2) * sin(angle / 2), more = exp(ln_apart) * cosine;
    if (more <= small * apart) {
        *ln_lost = ln_apart + log(steepness(law, angle) * cosine / sin(angle));
        return equal - exp(*ln_lost);
    }
    double to = rs_argmax_exponent(law, fmax(2 * asin(sqrt((apart + more) / 2)), angle));
    *ln_lost = log(fmax(from - to, 0));
    return to;
}
