import StoreCrypto
import StorePlatform

/// A copy of a sidecar that was held against keys.
struct JudgedSidecar {
    let copy: SidecarCopy
    let sidecar: Sidecar
    let bytes: [UInt8]
    /// The keys that authenticated it; nil when nothing did.
    let keys: SidecarKeys?
    /// Whether the key that was given opens it itself, and not only by what it found in the other copy.
    let isOpened: Bool
    let verdict: UnauthenticatedSidecar.Verdict

    var isGenuine: Bool { verdict == .genuine(sidecar) }

    /// Whether it may be what came of a direct store when it was given slots, which the direct key cannot tell.
    func mayReplace(_ best: JudgedSidecar) -> Bool {
        verdict == .wrongKey && sidecar.slotted != nil && best.sidecar.slotted == nil
            && sidecar.storeID == best.sidecar.storeID && sidecar.generation > best.sidecar.generation
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
        let ingredients = Ingredients(claimed)
        let known = attempts.first { $0.ingredients == ingredients }
        let keys = try known.map(\.keys) ?? unlock(claimed)
        if known == nil { attempts.append(Attempt(ingredients: ingredients, keys: keys)) }
        guard let keys else { return JudgedSidecar(copy, read, nil, isOpened: false, .wrongKey) }
        return JudgedSidecar(copy, read, keys, isOpened: true, try read.authenticate(keys))
    }
}

extension JudgedSidecar {
    fileprivate init(
        _ copy: SidecarCopy, _ read: UnauthenticatedSidecar, _ keys: SidecarKeys?, isOpened: Bool,
        _ verdict: UnauthenticatedSidecar.Verdict
    ) {
        self.init(
            copy: copy, sidecar: read.claimed, bytes: read.bytes, keys: keys, isOpened: isOpened, verdict: verdict)
    }

    /// Looks at a copy that its own key did not open with the keys that opened the other one.
    ///
    /// Only the keys of a genuine copy count: its master key for another table of slots, its data key for a copy from
    /// before or after a change between the schemes.
    fileprivate func reconsidered(with keys: SidecarKeys, _ other: JudgedSidecar) throws -> JudgedSidecar {
        guard verdict == .wrongKey, other.isGenuine, sidecar.storeID == other.sidecar.storeID else { return self }
        var candidate = keys
        if case .direct = sidecar.scheme, !keys.fit(sidecar) {
            guard let dataKey = try keys.dataKey(of: other.sidecar) else { return self }
            candidate = .direct(dataKey)
        }
        let read = try UnauthenticatedSidecar.parse(bytes)
        let verdict = try read.authenticate(candidate)
        return verdict == .wrongKey ? self : JudgedSidecar(copy, read, candidate, isOpened: false, verdict)
    }
}

extension Sidecar {
    /// Whether a slot stands in the table unchanged; nil stands for a master key that needs none.
    fileprivate func hasSlot(_ slot: KeySlot?) -> Bool { slot.map(slots.contains) ?? true }
}
