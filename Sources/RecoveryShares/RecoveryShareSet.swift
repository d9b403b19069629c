import KeyCustody
import StoreCrypto
import StorePlatform

/// The shares of one recovery key, in any order, as they are collected.
public struct RecoveryShareSet: Sendable {
    public private(set) var shares: [RecoveryShare] = []

    public init() {}

    /// Why a share does not belong to those that were collected, or why they give no key.
    public enum Refusal: Error, Hashable, Sendable {
        /// The share belongs to another recovery key than the shares before it.
        case otherSet(number: Int, set: String, expected: String)
        /// The share of this number was there already.
        case repeated(number: Int)
        /// So many shares are missing, of the threshold; nil where there is no share that states it.
        case missing(Int?)
        /// At least one of these is wrong, although its lines match their checks.
        case wrongShare(among: [Int])
    }

    /// A recovery key that shares have given.
    package struct Combination: Sendable {
        package let key: RawKey
        /// The numbers of the shares that do not fit to the key.
        package let misfits: [Int]
        /// Whether some shares are wrong, and nothing shows which: wrong ones give the key together, as right ones do.
        package var areUnclear = false
    }

    /// The number of shares that are missing; nil while there is none.
    public var missing: Int? { shares.first.map { max(0, $0.header.threshold - shares.count) } }

    /// Adds a share.
    ///
    /// - Throws: ``Refusal`` `otherSet`, `repeated`; then the share is not added.
    public mutating func add(_ share: RecoveryShare) throws(Refusal) {
        try require(share.header)
        shares.append(share)
    }

    /// Whether a share can be added, known from its first line.
    package func require(_ header: RecoveryShare.Header) throws(Refusal) {
        guard let first = shares.first?.header else { return }
        guard header.common == first.common else {
            throw .otherSet(number: header.number, set: header.setText, expected: first.setText)
        }
        guard !shares.contains(where: { $0.header.number == header.number }) else {
            throw .repeated(number: header.number)
        }
    }

    /// The key that the shares give. With more shares than the threshold a wrong one is found.
    ///
    /// - Throws: ``Refusal`` `missing`, `wrongShare`; ``CryptoError``.
    package func combine() throws -> Combination {
        guard let header = shares.first?.header, shares.count >= header.threshold else {
            throw Refusal.missing(missing)
        }
        var best: Combination?
        var isClear = false
        for chosen in Self.choices(of: header.threshold, from: shares.count) {
            let points = chosen.map { shares[$0].share }
            guard let key = try Self.key(in: SecretSharing.value(at: 0, of: points), header) else { continue }
            let misfits = shares.filter { share in
                let expected = SecretSharing.value(at: share.share.point, of: points)
                return !expected.isEqual(to: share.values)
            }
            let found = Combination(key: key, misfits: misfits.map(\.header.number).sorted())
            // Wrong shares may give the key together, and then the right ones do not fit to them.
            if 2 * misfits.count <= shares.count - header.threshold { return found }
            if let best, found.misfits.count >= best.misfits.count {
                isClear = isClear && (found.misfits == best.misfits || found.misfits.count > best.misfits.count)
            } else {
                (best, isClear) = (found, true)
            }
        }
        if let best { return isClear ? best : Combination(key: best.key, misfits: [], areUnclear: true) }
        throw Refusal.wrongShare(among: shares.map(\.header.number).sorted())
    }

    /// The key in shared bytes, if their digest is that of the key.
    private static func key(in shared: SecretBytes, _ header: RecoveryShare.Header) throws -> RawKey? {
        let key = try RawKey(
            shared.withBytes { SecretBytes(copying: UnsafeRawBufferPointer(rebasing: $0[..<RawKey.byteCount])) })
        return try RecoveryShare.shared(key, header).isEqual(to: shared) ? key : nil
    }

    /// The indices of each choice of `count` elements of `total`, the first elements first.
    private static func choices(of count: Int, from total: Int) -> [[Int]] {
        guard count > 0 else { return [[]] }
        guard count <= total else { return [] }
        return choices(of: count - 1, from: total - 1).map { [0] + $0.map { $0 + 1 } }
            + choices(of: count, from: total - 1).map { $0.map { $0 + 1 } }
    }
}

extension RecoveryShareSet.Refusal: CustomStringConvertible {
    public var description: String {
        switch self {
        case .otherSet(let number, let set, let expected):
            "share \(number) of set \(set) belongs to another recovery key: the shares before it are of set \(expected)"
        case .repeated(let number): "share \(number) was given already"
        case .missing(let count):
            count.map { "\(CountText.text($0, "more share")) \($0 == 1 ? "is" : "are") needed" } ?? "no share was given"
        case .wrongShare(let numbers):
            "one of the shares \(numbers.map(String.init).joined(separator: ", ")) is wrong, although its lines have no "
                + "typing mistake"
        }
    }
}

extension RecoveryShare {
    /// A new recovery key, and its shares. Before it returns, the printed texts have given the key.
    ///
    /// - Parameters:
    ///   - count: The number of shares, 2 to 16.
    ///   - threshold: How many of them open the store, 2 to `count`.
    /// - Throws: `StoreError` `invalidKey` for other numbers; ``CryptoError``.
    package static func makeKey(count: Int, threshold: Int) throws -> (key: RawKey, shares: [RecoveryShare]) {
        let key = try RawKey.random()
        return (key, try split(key, count: count, threshold: threshold, set: UInt32.random(in: 0 ... .max)))
    }

    static func split(_ key: RawKey, count: Int, threshold: Int, set: UInt32) throws -> [RecoveryShare] {
        guard counts.contains(count), (2...count).contains(threshold) else {
            throw StoreError(
                .invalidKey, what: "The recovery key was not split.",
                why: "\(threshold) of \(count) shares were to open the store.",
                remedy: "Make 2 to \(counts.upperBound) shares, of which at least 2 and at most all open the store.")
        }
        let header = Header(set: set, threshold: threshold, count: count, number: 1)
        let split = try SecretSharing.split(shared(key, header), threshold: threshold, count: count)
        let shares = split.map { share in
            RecoveryShare(
                header: Header(set: set, threshold: threshold, count: count, number: Int(share.point)),
                values: share.values)
        }
        try prove(shares, key)
        return shares
    }

    /// The bytes that are split: the key and a digest, by which a wrong combination is known.
    static func shared(_ key: RawKey, _ header: Header) throws(CryptoError) -> SecretBytes {
        let digest = try KeyDerivation.hkdf(
            key: key.bytes, salt: header.common, label: "cipherstore recovery share digest v1", keyBytes: digestBytes)
        return SecretBytes(count: valueBytes) { output in
            key.bytes.withBytes { output.copyMemory(from: $0) }
            digest.withBytes {
                UnsafeMutableRawBufferPointer(rebasing: output[RawKey.byteCount...]).copyMemory(from: $0)
            }
        }
    }

    /// Combines the printed texts: each share is in one combination at least.
    private static func prove(_ shares: [RecoveryShare], _ key: RawKey) throws {
        for start in shares.indices {
            var set = RecoveryShareSet()
            for offset in 0..<shares[start].header.threshold {
                let share = shares[(start + offset) % shares.count]
                try set.add(share.text().withBytes { bytes throws(ReadingError) in try RecoveryShare(reading: bytes) })
            }
            guard try set.combine().key.bytes.isEqual(to: key.bytes) else {
                preconditionFailure("shares of a recovery key give another key")
            }
        }
    }
}
