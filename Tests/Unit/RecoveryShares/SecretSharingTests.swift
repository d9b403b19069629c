import Foundation
import StoreCrypto
import TestKit
import Testing

@testable import RecoveryShares

@Suite("Secret sharing")
struct SecretSharingTests {
    /// A product by long multiplication and division of polynomials.
    private func longProduct(_ one: UInt8, _ other: UInt8) -> UInt8 {
        var product = 0
        for bit in 0..<8 where other >> UInt8(bit) & 1 == 1 { product ^= Int(one) << bit }
        for bit in stride(from: 14, through: 8, by: -1) where product >> bit & 1 == 1 { product ^= 0x11b << (bit - 8) }
        return UInt8(product)
    }

    @Test("products are those of FIPS 197, and of long multiplication")
    func products() {
        // Section 4.2 and 4.2.1 of FIPS 197.
        #expect(FieldArithmetic.product(0x57, 0x83) == 0xc1)
        for (factor, product) in [(0x02, 0xae), (0x04, 0x47), (0x08, 0x8e), (0x10, 0x07), (0x13, 0xfe)] {
            #expect(FieldArithmetic.product(0x57, UInt8(factor)) == UInt8(product))
        }
        for one in UInt8.min...UInt8.max {
            let wrong = (UInt8.min...UInt8.max).filter { FieldArithmetic.product(one, $0) != longProduct(one, $0) }
            #expect(wrong.isEmpty, "\(one): \(wrong)")
        }
    }

    @Test("each element but 0 has an inverse")
    func inverses() {
        #expect(FieldArithmetic.inverse(0) == 0 && FieldArithmetic.inverse(0x53) == 0xca)
        for element in UInt8(1)...UInt8.max {
            #expect(FieldArithmetic.product(element, FieldArithmetic.inverse(element)) == 1, "\(element)")
        }
    }

    // The values in the two mnemonics of SLIP-39's test vector 4, "Basic sharing 2-of-3 (128 bits)". There the secret is
    // at 255; at 254 are four bytes of HMAC-SHA256(key: the other bytes, the secret).
    // https://github.com/trezor/python-shamir-mnemonic/blob/master/vectors.json
    @Test("the shares of a vector of SLIP-39 give its secret and its digest")
    func publishedShares() throws {
        func share(_ point: UInt8, _ hex: String) -> SecretSharing.Share {
            SecretSharing.Share(point: point, values: SecretBytes(copying: hex.hexBytes))
        }
        let shares = [
            share(2, "08fb14b66e692e25dfe2edf53289ed62"), share(0, "06ab48fef4bedc8ce58baeef0a73f76e"),
        ]
        #expect(SecretSharing.value(at: 255, of: shares).hexText == "cdc017fddc829e791b1371780be0605a")
        #expect(SecretSharing.value(at: 254, of: shares).hexText == "cae839d99164e7a006aadd75179d6d5c")
        #expect(SecretSharing.value(at: 255, of: shares.reversed()).hexText == "cdc017fddc829e791b1371780be0605a")
    }

    @Test("as many shares as the threshold give the secret, in any order; fewer give other bytes")
    func thresholds() throws {
        let secret = SecretBytes(copying: (0..<40).map { UInt8($0) })
        for (threshold, count) in [(2, 2), (2, 16), (3, 5), (16, 16)] {
            let shares = try SecretSharing.split(secret, threshold: threshold, count: count).shuffled()
            let isEqual = SecretSharing.value(at: 0, of: Array(shares.prefix(threshold))).isEqual(to: secret)
            #expect(isEqual, "\(threshold) of \(count)")
            let isFewer = SecretSharing.value(at: 0, of: Array(shares.prefix(threshold - 1))).isEqual(to: secret)
            #expect(!isFewer, "\(threshold) of \(count)")
        }
    }
}

extension String {
    /// The bytes that hexadecimal text stands for.
    var hexBytes: [UInt8] { TestKeys.bytes(self) }
}

extension SecretBytes {
    var hexText: String { withBytes { TestKeys.hex(Array($0)) } }
}
