import StoreCrypto

/// Shamir's secret sharing: a secret is the value at 0 of a random polynomial, one for each of its bytes, and a share is
/// the value at another point. As many shares as the polynomial has coefficients determine it; fewer say nothing of it.
///
/// - SeeAlso: Adi Shamir, "How to share a secret", Communications of the ACM 22 (1979).
enum SecretSharing {
    /// The value of the polynomials at one point.
    struct Share: Sendable {
        let point: UInt8
        let values: SecretBytes
    }

    /// Splits a secret with new random coefficients.
    ///
    /// - Parameters:
    ///   - threshold: The number of shares that determine the secret; 2 or more.
    ///   - count: The number of shares; their points are 1 to `count`.
    /// - Throws: ``CryptoError`` when the system gives no random bytes.
    static func split(_ secret: SecretBytes, threshold: Int, count: Int) throws(CryptoError) -> [Share] {
        split(secret, coefficients: try .random(count: secret.count * (threshold - 1)), count: count)
    }

    /// Splits a secret with given coefficients.
    ///
    /// - Parameter coefficients: Those of x for all bytes, then those of x^2, and so on.
    static func split(_ secret: SecretBytes, coefficients: SecretBytes, count: Int) -> [Share] {
        (1...UInt8(count)).map { point in
            let values = secret.withBytes { secret in
                coefficients.withBytes { coefficients in
                    SecretBytes(count: secret.count) { output in
                        for index in secret.indices {
                            var value = UInt8(0)
                            // By Horner's rule, the highest power first.
                            for term in stride(from: coefficients.count, to: 0, by: -secret.count) {
                                let coefficient = coefficients[term - secret.count + index]
                                value = FieldArithmetic.product(value ^ coefficient, point)
                            }
                            output[index] = value ^ secret[index]
                        }
                    }
                }
            }
            return Share(point: point, values: values)
        }
    }

    /// The value at a point of the polynomials that shares determine, by Lagrange's formula.
    ///
    /// - Parameter shares: As many as the threshold, of different points and one length.
    static func value(at point: UInt8, of shares: [Share]) -> SecretBytes {
        // The weights are made of points, which are no secrets.
        let weights = shares.map { share in
            shares.reduce(UInt8(1)) { weight, other in
                guard other.point != share.point else { return weight }
                let quotient = FieldArithmetic.product(
                    point ^ other.point, FieldArithmetic.inverse(share.point ^ other.point))
                return FieldArithmetic.product(weight, quotient)
            }
        }
        return SecretBytes(count: shares.first?.values.count ?? 0) { output in
            for (share, weight) in zip(shares, weights) {
                share.values.withBytes { values in
                    for index in output.indices { output[index] ^= FieldArithmetic.product(values[index], weight) }
                }
            }
        }
    }
}
