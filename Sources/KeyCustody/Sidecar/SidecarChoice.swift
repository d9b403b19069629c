import StoreCrypto
import StorePlatform

/// Something about the two files of a sidecar that the store's owner may want to know.
package enum SidecarNote: Hashable, Sendable {
    /// The main copy could not be used; the backup took its place.
    case restoredFromBackup
    case missing(SidecarCopy)
    case unreadable(SidecarCopy, SystemError)
    case damaged(SidecarCopy, SidecarSyntaxError)
    /// The copy was changed by somebody without the key.
    case forged(SidecarCopy)
    /// The copy fits another key: an older or newer one, another store's, or its salt was changed.
    case otherKey(SidecarCopy)
    /// The copy is an older version. For the backup a cut change explains it; for the main copy nothing does.
    case stale(SidecarCopy, generation: UInt64, current: UInt64)
    /// Both copies are genuine and of one generation, but differ; the main copy counts.
    case differing

    /// Whether it may be the trace of an attack or of a mistake, and not of a crash.
    package var isSuspicious: Bool {
        switch self {
        case .forged, .otherKey, .differing: true
        case .stale(let copy, _, _): copy == .main
        case .restoredFromBackup, .missing, .unreadable, .damaged: false
        }
    }
}

extension SidecarNote: CustomStringConvertible {
    package var description: String {
        switch self {
        case .restoredFromBackup: "the store was opened with the backup of its sidecar"
        case .missing(let copy): "the \(copy.rawValue) copy of the sidecar is missing"
        case .unreadable(let copy, let error): "the \(copy.rawValue) copy of the sidecar cannot be read: \(error)"
        case .damaged(let copy, let error): "the \(copy.rawValue) copy of the sidecar is damaged: \(error)"
        case .forged(let copy): "the \(copy.rawValue) copy of the sidecar was changed by somebody without the key"
        case .otherKey(let copy): "the \(copy.rawValue) copy of the sidecar fits another key"
        case .stale(let copy, let generation, let current):
            "the \(copy.rawValue) copy of the sidecar is an older version (generation \(generation) of \(current))"
        case .differing: "the two copies of the sidecar differ though both are genuine"
        }
    }
}

/// The sidecar that counts, and the key that proved it.
package struct SidecarChoice: Sendable {
    package let sidecar: Sidecar
    package let dataKey: DataKey
    /// Which file it came from.
    package let copy: SidecarCopy
    package let notes: [SidecarNote]
    /// The bytes of the chosen file.
    let bytes: [UInt8]
}

extension SidecarFiles {
    /// Finds the version that counts: of the files that the key proves genuine the one with the highest generation.
    ///
    /// - Parameter deriveKey: Makes the data key for a salt and settings; asked once for each pair of them.
    /// - Returns: The choice, or nil when there is no file at all.
    /// - Throws: `StoreError` `wrongKey`, `sidecarForged`, `sidecarDamaged`, `sidecarAhead` or `foreignSidecar`;
    ///   ``SystemError`` when the files that matter cannot be read; what `deriveKey` throws.
    package func choose(
        _ copies: SidecarCopies, deriveKey: (Salt, CipherSettings) throws -> DataKey
    ) throws -> SidecarChoice? {
        if copies.areAbsent { return nil }
        try refuseLaterVersions(copies)
        let judged = try judge(copies, deriveKey)
        guard let best = try best(of: judged) else { throw failure(copies, judged) }
        let notes = notes(copies, judged, best: best)
        return SidecarChoice(
            sidecar: best.sidecar, dataKey: best.dataKey, copy: best.copy, notes: notes, bytes: best.bytes)
    }

    /// A copy that could be held against a key.
    fileprivate struct Judged {
        let copy: SidecarCopy
        let sidecar: Sidecar
        let bytes: [UInt8]
        let dataKey: DataKey
        let verdict: UnauthenticatedSidecar.Verdict

        var isGenuine: Bool { verdict == .genuine(sidecar) }
    }

    private struct Ingredients: Hashable {
        let salt: Salt
        let settings: CipherSettings
    }

    private func judge(
        _ copies: SidecarCopies, _ deriveKey: (Salt, CipherSettings) throws -> DataKey
    ) throws -> [Judged] {
        var keys: [Ingredients: DataKey] = [:]
        return try SidecarCopy.allCases.compactMap { copy in
            guard let parsed = copies[copy].parsed else { return nil }
            let claimed = parsed.claimed
            let ingredients = Ingredients(salt: claimed.salt, settings: claimed.settings)
            let dataKey = try keys[ingredients] ?? deriveKey(claimed.salt, claimed.settings)
            keys[ingredients] = dataKey
            return Judged(
                copy: copy, sidecar: claimed, bytes: parsed.bytes, dataKey: dataKey,
                verdict: try parsed.authenticate(dataKey: dataKey))
        }
    }

    /// The genuine copy with the highest generation; the main one when they are equal.
    private func best(of judged: [Judged]) throws(StoreError) -> Judged? {
        let genuine = judged.filter(\.isGenuine)
        guard let first = genuine.first, let last = genuine.last else { return nil }
        guard first.sidecar.storeID == last.sidecar.storeID else {
            throw StoreError(
                .foreignSidecar,
                what: "The two copies of the sidecar of \"\(databasePath)\" belong to different stores.",
                why: "Both are genuine, but they carry different store identifiers.",
                remedy: "Move the one that is not this store's away: \"\(mainPath)\" or \"\(backupPath)\".")
        }
        return last.sidecar.generation > first.sidecar.generation ? last : first
    }

    private func notes(_ copies: SidecarCopies, _ judged: [Judged], best: Judged) -> [SidecarNote] {
        var notes: [SidecarNote] = best.copy == .backup ? [.restoredFromBackup] : []
        let other = best.copy.other
        switch copies[other] {
        case .absent: notes.append(.missing(other))
        case .unreadable(let error): notes.append(.unreadable(other, error))
        case .damaged(let error): notes.append(.damaged(other, error))
        case .present:
            guard let rest = judged.first(where: { $0.copy == other }) else { break }
            switch rest.verdict {
            case .forged: notes.append(.forged(other))
            case .wrongKey: notes.append(.otherKey(other))
            case .genuine(let sidecar):
                let current = best.sidecar.generation
                if sidecar.generation < current {
                    notes.append(.stale(other, generation: sidecar.generation, current: current))
                } else if rest.bytes != best.bytes {
                    notes.append(.differing)
                }
            }
        }
        return notes
    }
}

extension SidecarFiles {
    private func refuseLaterVersions(_ copies: SidecarCopies) throws(StoreError) {
        for copy in SidecarCopy.allCases {
            guard case .damaged(let error) = copies[copy], error.isAhead else { continue }
            throw StoreError(
                .sidecarAhead, what: "The sidecar \"\(path(of: copy))\" was written by a newer version.",
                why: "This version cannot use it: \(error).",
                remedy: "Open the store with the newer version; nothing was changed.")
        }
    }

    /// What to say when no copy is genuine.
    private func failure(_ copies: SidecarCopies, _ judged: [Judged]) -> any Error {
        if judged.contains(where: { $0.verdict == .forged }) {
            return StoreError(
                .sidecarForged, what: "The sidecar of \"\(databasePath)\" is not what the holder of the key wrote.",
                why: "The key fits, but the authentication code of \"\(mainPath)\" does not (\(state(copies))).",
                remedy: "Restore the sidecar from a backup of the store, and find out who changed it.")
        }
        if !judged.isEmpty {
            return StoreError(
                .wrongKey, what: "The key does not open \"\(databasePath)\".",
                why: "It does not fit the key check of the sidecar (\(state(copies))).",
                remedy: "Check the key. If it is right, the salt in the sidecar was changed: restore the sidecar.")
        }
        for copy in SidecarCopy.allCases {
            if case .unreadable(let error) = copies[copy] { return error }
        }
        return StoreError(
            .sidecarDamaged, what: "No copy of the sidecar of \"\(databasePath)\" can be used.",
            why: "State of its files: \(state(copies)).",
            remedy: "Restore \"\(mainPath)\" from a backup of the store. Without it a passphrase opens nothing.")
    }

    private func state(_ copies: SidecarCopies) -> String {
        SidecarCopy.allCases.map { copy in
            switch copies[copy] {
            case .absent: "\(copy.rawValue) copy: missing"
            case .unreadable(let error): "\(copy.rawValue) copy: \(error)"
            case .damaged(let error): "\(copy.rawValue) copy: \(error)"
            case .present: "\(copy.rawValue) copy: well-formed"
            }
        }.joined(separator: "; ")
    }
}
