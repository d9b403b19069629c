import StorePlatform

extension SidecarFiles {
    /// Makes both files the chosen version again. The caller holds the opening lock and may write the folder.
    ///
    /// A damaged or forged file is kept beside as `.damaged`. A file that only fits another key is replaced when the
    /// key has been proved by the database itself, because it might be the newer truth of a rotation; and not at all when it
    /// may be what a change of the scheme made of this one.
    ///
    /// - Parameter keyOpensDatabase: Whether page 1 of the database was authenticated with the chosen key and salt.
    /// - Returns: The copies that were rewritten.
    @discardableResult
    package func repair(_ choice: AuthenticatedSidecar, keyOpensDatabase: Bool) throws(SystemError) -> [SidecarCopy] {
        try repair(choice.standing, keyOpensDatabase: keyOpensDatabase)
    }

    @discardableResult
    func repair(_ standing: VerifiedCopies, keyOpensDatabase: Bool) throws(SystemError) -> [SidecarCopy] {
        var rewritten: [SidecarCopy] = []
        for note in standing.notes {
            guard let (copy, isKept) = Self.action(for: note, standing, keyOpensDatabase) else { continue }
            if isKept { try AtomicFile.move(path(of: copy), to: setAsidePath(of: copy)) }
            try write(standing.best.bytes, to: copy)
            rewritten.append(copy)
        }
        return rewritten
    }

    /// Which copy a note calls to rewrite, and whether its present content is kept beside.
    private static func action(
        for note: SidecarNote, _ standing: VerifiedCopies, _ keyOpensDatabase: Bool
    ) -> (SidecarCopy, isKept: Bool)? {
        switch note {
        case .missing(let copy), .stale(let copy, _, _): (copy, false)
        case .damaged(let copy, _), .forged(let copy): (copy, true)
        case .otherKey(let copy): keyOpensDatabase && standing.unverified != copy ? (copy, true) : nil
        case .differing: keyOpensDatabase ? (standing.best.copy.other, true) : nil
        // Nothing is known about it, so nothing is done to it.
        case .unreadable, .restoredFromBackup: nil
        }
    }
}
