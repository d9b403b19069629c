import StoreCrypto
import StorePlatform

/// A copy of a sidecar that was verified.
struct VerifiedCopy: Sendable {
    let copy: SidecarCopy
    let sidecar: Sidecar
    let bytes: [UInt8]
    /// The keys that authenticated it; nil when nothing did.
    let keys: SidecarKeys?
    /// Whether the key that was given opens it itself, and not only by what it found in the other copy.
    let isOpened: Bool
    /// Whether the keys are those of the next epoch, which a rotation is about to bring.
    let isBySuccessor: Bool
    let verdict: UnauthenticatedSidecar.Verdict

    var isGenuine: Bool { verdict == .genuine(sidecar) }

    /// Whether it may be what came of the best one by a change that its key cannot tell: a direct store was given slots, or
    /// a rotation brought keys that the old ones do not open.
    func mayReplace(_ best: VerifiedCopy) -> Bool {
        let mayBeUntold = sidecar.slotted != nil && best.sidecar.slotted == nil || best.sidecar.successorHasOwnKeys
        return verdict == .wrongKey && mayBeUntold && sidecar.storeID == best.sidecar.storeID
            && sidecar.generation > best.sidecar.generation
    }
}

/// Verifies the copies of a sidecar with a key, with as few derivations as possible.
///
/// The copy that claims the highest generation comes first. Its master key, once known, verifies the other copy without a
/// derivation; and a master key that only the older copy gave verifies the newer one, which may have lost the slot.
enum SidecarVerifier {
    /// The readable copies, the main one first.
    ///
    /// - Parameter derived: What the key has opened so far.
    static func verify(
        _ copies: SidecarCopies, _ derived: inout DerivedKeys, _ unlock: (Sidecar) throws -> SidecarKeys?
    ) throws -> [VerifiedCopy] {
        WorkCount.sidecarVerifications.add()
        let found = SidecarCopy.allCases.compactMap { copy in copies[copy].parsed.map { (copy, $0) } }
        let isSwapped = found.count == 2 && found[1].1.claimed.generation > found[0].1.claimed.generation
        var verified = try (isSwapped ? found.reversed() : found).map { try verify($0, $1, &derived, unlock) }
        guard verified.count == 2 else { return verified }
        // What one copy gave may tell about the other.
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
        // It may be the key that a rotation is about to bring.
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

    /// Looks at a copy that its own key did not open with the keys that opened the other one.
    ///
    /// Only the keys of a genuine copy count: its master key for another table of slots, its data key for a copy from
    /// before or after a change between the schemes, and the keys of the next epoch, where it has them, for one from behind
    /// the switch. The keys of the next epoch prove in turn a copy from before it.
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
