import StoreCrypto
import StorePlatform

/// A copy of a sidecar that was held against keys.
struct JudgedSidecar: Sendable {
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
    func mayReplace(_ best: JudgedSidecar) -> Bool {
        let mayBeUntold = sidecar.slotted != nil && best.sidecar.slotted == nil || best.sidecar.successorHasOwnKeys
        return verdict == .wrongKey && mayBeUntold && sidecar.storeID == best.sidecar.storeID
            && sidecar.generation > best.sidecar.generation
    }
}

/// Holds the copies of a sidecar against a key, with as few derivations as possible.
///
/// The copy that claims the highest generation comes first. Its master key, once known, judges the other copy without a
/// derivation; and a master key that only the older copy gave judges the newer one, which may have lost the slot.
struct SidecarJudge {
    private var attempts: [Attempt] = []

    private struct Attempt {
        let ingredients: Ingredients
        let keys: SidecarKeys?
    }

    /// What keys are made of, so that equal ones are made once.
    private enum Ingredients: Hashable {
        case direct(Salt, CipherSettings)
        case slots(StoreID, [KeySlot])

        init(_ sidecar: Sidecar) {
            switch sidecar.scheme {
            case .direct: self = .direct(sidecar.salt, sidecar.settings)
            case .slots(let slotted): self = .slots(sidecar.storeID, slotted.table.slots)
            }
        }
    }

    /// The readable copies, the main one first.
    static func judge(_ copies: SidecarCopies, _ unlock: (Sidecar) throws -> SidecarKeys?) throws -> [JudgedSidecar] {
        WorkCount.sidecarVerifications.add()
        var judge = SidecarJudge()
        let found = SidecarCopy.allCases.compactMap { copy in copies[copy].parsed.map { (copy, $0) } }
        let isSwapped = found.count == 2 && found[1].1.claimed.generation > found[0].1.claimed.generation
        var judged = try (isSwapped ? found.reversed() : found).map { try judge.judge($0, $1, unlock) }
        guard judged.count == 2 else { return judged }
        // What one copy gave may tell about the other.
        if let keys = judged[1].keys { judged[0] = try judged[0].reconsidered(with: keys, judged[1]) }
        if let keys = judged[0].keys { judged[1] = try judged[1].reconsidered(with: keys, judged[0]) }
        return isSwapped ? judged.reversed() : judged
    }

    private mutating func judge(
        _ copy: SidecarCopy, _ read: UnauthenticatedSidecar, _ unlock: (Sidecar) throws -> SidecarKeys?
    ) throws -> JudgedSidecar {
        let claimed = read.claimed
        for case .slots(let master, let slot)? in attempts.map(\.keys) where claimed.hasSlot(slot) {
            let keys = SidecarKeys.slots(master, openedBy: slot)
            let verdict = try read.authenticate(keys)
            if verdict != .wrongKey { return JudgedSidecar(copy, read, keys, isOpened: true, verdict) }
        }
        let keys = try keys(for: claimed, unlock)
        if let keys {
            let verdict = try read.authenticate(keys)
            if verdict != .wrongKey { return JudgedSidecar(copy, read, keys, isOpened: true, verdict) }
        }
        // It may be the key that a rotation is about to bring.
        if claimed.successorHasOwnKeys, let next = try claimed.successor.flatMap({ try self.keys(for: $0, unlock) }) {
            let verdict = try read.authenticateSuccessor(next)
            if verdict != .wrongKey {
                return JudgedSidecar(copy, read, next, isOpened: true, isBySuccessor: true, verdict)
            }
        }
        return JudgedSidecar(copy, read, keys, isOpened: keys != nil, .wrongKey)
    }

    private mutating func keys(
        for claimed: Sidecar, _ unlock: (Sidecar) throws -> SidecarKeys?
    ) throws -> SidecarKeys? {
        let ingredients = Ingredients(claimed)
        if let known = attempts.first(where: { $0.ingredients == ingredients }) { return known.keys }
        let keys = try unlock(claimed)
        attempts.append(Attempt(ingredients: ingredients, keys: keys))
        return keys
    }
}

extension JudgedSidecar {
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
    fileprivate func reconsidered(with keys: SidecarKeys, _ other: JudgedSidecar) throws -> JudgedSidecar {
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
            if verdict != .wrongKey { return JudgedSidecar(copy, read, keys, isOpened: false, verdict) }
            let next = try read.authenticateSuccessor(keys)
            if next != .wrongKey {
                return JudgedSidecar(copy, read, keys, isOpened: false, isBySuccessor: true, next)
            }
        }
        return self
    }
}

extension Sidecar {
    /// Whether a slot stands in the table unchanged; nil stands for a master key that needs none.
    fileprivate func hasSlot(_ slot: KeySlot?) -> Bool { slot.map(slots.contains) ?? true }
}
