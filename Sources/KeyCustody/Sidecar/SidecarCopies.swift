import StoreCrypto
import StorePlatform

/// One of the two files of a sidecar.
package enum SidecarCopy: String, Hashable, Sendable, CaseIterable {
    case main
    case backup

    var other: SidecarCopy { self == .main ? .backup : .main }
}

/// The content of one file of a sidecar, before any key is known.
package enum SidecarContent: Hashable, Sendable {
    case absent
    /// The system refused to read it.
    case unreadable(SystemError)
    /// It is not a sidecar, or has a format of a later version (`isAhead`).
    case damaged(SidecarSyntaxError)
    case present(UnauthenticatedSidecar)

    package var parsed: UnauthenticatedSidecar? {
        if case .present(let sidecar) = self { sidecar } else { nil }
    }
}

/// Both files of a sidecar as they were read.
package struct SidecarCopies: Hashable, Sendable {
    package let main: SidecarContent
    package let backup: SidecarContent

    init(main: SidecarContent, backup: SidecarContent) {
        self.main = main
        self.backup = backup
    }

    package subscript(copy: SidecarCopy) -> SidecarContent { copy == .main ? main : backup }

    /// Whether neither file exists.
    package var areAbsent: Bool { main == .absent && backup == .absent }

    /// The claims of the readable copies, the main one first, unverified.
    package var claimed: [Sidecar] { SidecarCopy.allCases.compactMap { self[$0].parsed?.claimed } }

    /// The newest of them, the main one of two that are equally new; nil when none can be read.
    package var newestClaimed: Sidecar? { claimed.max { $0.generation < $1.generation } }

    /// Whether a sidecar exists, and every readable copy says that its store is still to be created.
    package var isAnnouncement: Bool {
        let claimed = claimed
        return !claimed.isEmpty && claimed.allSatisfy { $0.state == .creating }
    }
}
