import StoreCrypto
import StorePlatform

/// The result of verifying the two files of a sidecar.
struct VerifiedCopies: Sendable {
    /// The genuine copy that is valid.
    let best: VerifiedCopy
    let notes: [SidecarNote]
    /// A copy that claims to be newer and that this key cannot verify. A change of the scheme or an interrupted
    /// rotation may have written it.
    let unverified: SidecarCopy?
}

/// A copy of a sidecar after verification.
struct VerifiedCopy: Sendable {
    let copy: SidecarCopy
    let sidecar: Sidecar
    let bytes: [UInt8]
    /// The keys that authenticated it; nil when none did.
    let keys: SidecarKeys?
    /// Whether the given secret opens it directly, and not only by keys found in the other copy.
    let isOpened: Bool
    /// Whether the keys are those of the next epoch of a pending rotation.
    let isBySuccessor: Bool
    let verdict: UnauthenticatedSidecar.Verdict

    var isGenuine: Bool { verdict == .genuine(sidecar) }

    /// Whether it may be a newer version of the best copy that the key of the best copy cannot verify: a direct store
    /// was given slots, or a rotation changed to keys that the former ones do not open.
    func mayReplace(_ best: VerifiedCopy) -> Bool {
        let mayBeUntold = sidecar.slotted != nil && best.sidecar.slotted == nil || best.sidecar.successorHasOwnKeys
        return verdict == .wrongKey && mayBeUntold && sidecar.storeID == best.sidecar.storeID
            && sidecar.generation > best.sidecar.generation
    }
}

/// Verifies the copies of a sidecar with a secret, in as few derivations as possible.
///
/// The copy that claims the highest generation is verified first. Its master key then verifies the other copy without a
/// derivation. A master key that only the older copy opened verifies the newer one, from which the slot may have been
/// removed.
enum SidecarVerifier {
    /// The readable copies, the main one first.
    ///
    /// - Parameter derived: The keys that the secret has opened so far.
    static func verify(
        _ copies: SidecarCopies, _ derived: inout DerivedKeys, _ unlock: (Sidecar) throws -> SidecarKeys?
    ) throws -> [VerifiedCopy] {
        WorkCount.sidecarVerifications.add()
        let found = SidecarCopy.allCases.compactMap { copy in copies[copy].parsed.map { (copy, $0) } }
        let isSwapped = found.count == 2 && found[1].1.claimed.generation > found[0].1.claimed.generation
        var verified = try (isSwapped ? found.reversed() : found).map { try verify($0, $1, &derived, unlock) }
        guard verified.count == 2 else { return verified }
        // The keys of one copy may verify the other.
        if let keys = verified[1].keys { verified[0] = try verified[0].reconsidered(with: keys, verified[1]) }
        if let keys = verified[0].keys { verified[1] = try verified[1].reconsidered(with: keys, verified[0]) }
        return isSwapped ? verified.reversed() : verified
    }

    private static func verify(
        _ copy: SidecarCopy, _ read: UnauthenticatedSidecar, _ derived: inout DerivedKeys,
        _ unlock: (Sidecar) throws -> SidecarKeys?
    ) throws -> VerifiedCopy {
        let claimed = read.claimed
        let keys = try derived.keys(of: claimed, unlock)
        if let keys {
            let verdict = try read.authenticate(keys)
            if verdict != .wrongKey { return VerifiedCopy(copy, read, keys, isOpened: true, verdict) }
        }
        // It may be the next key of a pending rotation.
        if claimed.successorHasOwnKeys, let successor = claimed.successor,
            let next = try derived.keys(of: successor, unlock)
        {
            let verdict = try read.authenticateSuccessor(next)
            if verdict != .wrongKey {
                return VerifiedCopy(copy, read, next, isOpened: true, isBySuccessor: true, verdict)
            }
        }
        return VerifiedCopy(copy, read, keys, isOpened: keys != nil, .wrongKey)
    }
}

extension VerifiedCopy {
    fileprivate init(
        _ copy: SidecarCopy, _ read: UnauthenticatedSidecar, _ keys: SidecarKeys?, isOpened: Bool,
        isBySuccessor: Bool = false, _ verdict: UnauthenticatedSidecar.Verdict
    ) {
        self.init(
            copy: copy, sidecar: read.claimed, bytes: read.bytes, keys: keys, isOpened: isOpened,
            isBySuccessor: isBySuccessor, verdict: verdict)
    }

    /// Verifies a copy that the secret did not open with the keys that opened the other one.
    ///
    /// Only the keys of a genuine copy are used: its master key, for another slot table; its data key, for a copy from
    /// before or after a change of the scheme; the keys of the next epoch, if it has them, for a copy written after the
    /// switch. The keys of the next epoch, in turn, verify a copy written before the switch.
    fileprivate func reconsidered(with keys: SidecarKeys, _ other: VerifiedCopy) throws -> VerifiedCopy {
        guard verdict == .wrongKey, other.isGenuine, sidecar.storeID == other.sidecar.storeID else { return self }
        var candidates = [keys]
        if !other.isBySuccessor {
            if let next = try keys.successor(of: other.sidecar) { candidates.append(next) }
            if case .direct = sidecar.scheme, !keys.fit(sidecar), let dataKey = try keys.dataKey(of: other.sidecar) {
                candidates.append(.direct(dataKey))
            }
        }
        let read = try UnauthenticatedSidecar.parse(bytes)
        for keys in candidates {
            let verdict = try read.authenticate(keys)
            if verdict != .wrongKey { return VerifiedCopy(copy, read, keys, isOpened: false, verdict) }
            let next = try read.authenticateSuccessor(keys)
            if next != .wrongKey {
                return VerifiedCopy(copy, read, keys, isOpened: false, isBySuccessor: true, next)
            }
        }
        return self
    }
}
