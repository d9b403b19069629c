import StorePlatform

extension SidecarFiles {
    /// Rewrites the copies that differ from the chosen one. The caller holds the opening lock and may write to the
    /// folder.
    ///
    /// A damaged or forged file is kept under its name with `.damaged` appended. A file that belongs to another key may
    /// be the newer version of a rotation. It is replaced only after the database itself has authenticated the key. It
    /// is never replaced when a change of the scheme or an interrupted rotation of this version may have written it.
    ///
    /// - Parameter keyOpensDatabase: Whether page 1 of the database was authenticated with the chosen key and salt.
    /// - Returns: The copies that were rewritten.
    /// - Throws: ``StoreError`` `alreadyExists` where a link or a folder has the name of a copy, and ``SystemError``.
    @discardableResult
    package func repair(_ choice: AuthenticatedSidecar, keyOpensDatabase: Bool) throws -> [SidecarCopy] {
        try repair(choice.standing, keyOpensDatabase: keyOpensDatabase)
    }

    @discardableResult
    func repair(_ standing: VerifiedCopies, keyOpensDatabase: Bool) throws -> [SidecarCopy] {
        var rewritten: [SidecarCopy] = []
        for note in standing.notes {
            guard let (copy, isKept) = Self.action(for: note, standing, keyOpensDatabase) else { continue }
            try requireReplaceable(path(of: copy))
            if isKept {
                try requireReplaceable(setAsidePath(of: copy))
                try AtomicFile.move(path(of: copy), to: setAsidePath(of: copy))
            }
            try write(standing.best.bytes, to: copy)
            rewritten.append(copy)
        }
        return rewritten
    }

    /// The copy that a note says to rewrite, and whether its present content is kept.
    private static func action(
        for note: SidecarNote, _ standing: VerifiedCopies, _ keyOpensDatabase: Bool
    ) -> (SidecarCopy, isKept: Bool)? {
        switch note {
        case .missing(let copy), .stale(let copy, _, _): (copy, false)
        case .damaged(let copy, _), .forged(let copy): (copy, true)
        case .otherKey(let copy): keyOpensDatabase && standing.unverified != copy ? (copy, true) : nil
        case .differing: keyOpensDatabase ? (standing.best.copy.other, true) : nil
        // The content is unknown, so the file is left as it is.
        case .unreadable, .restoredFromBackup: nil
        }
    }
}
