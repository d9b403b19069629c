import Foundation
import Testing

@testable import StorePlatform

@Suite("Ownership of files that are made anew")
struct FileOwnershipTests {
    let folder: TemporaryFolder
    private var path: String { folder.file("app.db") }
    private static let owner: UInt32 = 61_001
    private static let member: UInt32 = 61_002
    private static let group: UInt32 = 62_000

    init() throws { folder = try TemporaryFolder() }

    /// A list as the system keeps it, of tag, rights and number.
    private func list(_ entries: [(UInt16, UInt16, UInt32)]) -> [UInt8] {
        func bytes(_ value: some FixedWidthInteger) -> [UInt8] { withUnsafeBytes(of: value.littleEndian) { Array($0) } }
        return bytes(UInt32(2)) + entries.flatMap { bytes($0.0) + bytes($0.1) + bytes($0.2) }
    }

    @Test("by the mode a member of the group has the group's rights, be they less, and everybody else those of others")
    func mode() {
        for (permissions, member, other, unknown) in [
            (0o660, true, false, false), (0o666, true, true, true), (0o606, false, true, false),
            (0o640, false, false, false), (0o664, true, false, false),
        ] as [(UInt32, Bool, Bool, Bool)] {
            let access = FileAccess(group: 7, permissions: permissions, list: [])
            #expect(access.letsReadAndWrite(1, memberships: [7, 8]) == member)
            #expect(access.letsReadAndWrite(1, memberships: [8]) == other)
            #expect(access.letsReadAndWrite(1, memberships: nil) == unknown)
        }
    }

    @Test("a list gives its users and groups what it says, within its mask")
    func accessControlList() {
        let none = UInt32.max
        func access(mask: UInt16) -> FileAccess {
            FileAccess(
                group: 7, permissions: 0o660,
                list: list([
                    (1, 6, none), (2, 6, 1), (2, 4, 2), (4, 0, none), (8, 6, 9), (16, mask, none), (32, 0, none),
                ]))
        }
        let open = access(mask: 6)
        #expect(open.letsReadAndWrite(1, memberships: nil) && open.letsReadAndWrite(1, memberships: [7]))
        #expect(!open.letsReadAndWrite(2, memberships: [9]))
        #expect(!open.letsReadAndWrite(3, memberships: [7]) && open.letsReadAndWrite(3, memberships: [7, 9]))
        #expect(!open.letsReadAndWrite(3, memberships: nil) && !open.letsReadAndWrite(3, memberships: []))
        let narrow = access(mask: 4)
        #expect(!narrow.letsReadAndWrite(1, memberships: nil) && !narrow.letsReadAndWrite(3, memberships: [9]))
    }

    @Test("the groups of a user are those of the system, and of one that it does not know there are none to be had")
    func memberships() {
        #expect(UserDatabase.groups(of: 0)?.contains(0) == true)
        #expect(UserDatabase.groups(of: Self.owner) == nil)
    }

    // Once the owner was left with a database of the member's that he could not open.
    @Test(
        "a member of the group would take a file from an owner who is not in it, also one that every user may write",
        .enabled(if: getuid() == 0, "needs root to become somebody else"))
    func memberOfTheGroup() async throws {
        try Data().write(to: URL(fileURLWithPath: path))
        #expect(chmod(folder.path, 0o777) == 0 && chown(path, Self.owner, Self.group) == 0 && chmod(path, 0o660) == 0)
        #expect(try FileOwnership.ownerLosing(path) == nil, "root gives files away")
        await #expect(processExitsWith: .success) { [path = path as String] in
            var groups: [gid_t] = [62_000]
            guard setgroups(1, &groups) == 0, setgid(62_000) == 0, setuid(61_002) == 0 else { exit(2) }
            guard try FileOwnership.ownerLosing(path) == 61_001 else { exit(3) }
            guard isRefused({ try FileOwnership.requireKept(path, what: "") }) else { exit(4) }
        }
        #expect(chown(path, 0, Self.group) == 0)
        await #expect(processExitsWith: .success) { [path = path as String] in
            var groups: [gid_t] = [62_000]
            guard setgroups(1, &groups) == 0, setgid(62_000) == 0, setuid(61_002) == 0 else { exit(2) }
            guard try FileOwnership.ownerLosing(path) == nil else { exit(3) }
        }
        #expect(chown(path, Self.owner, Self.group) == 0 && chmod(path, 0o666) == 0)
        await #expect(processExitsWith: .success) { [path = path as String] in
            var groups: [gid_t] = [62_000]
            guard setgroups(1, &groups) == 0, setgid(62_000) == 0, setuid(61_002) == 0 else { exit(2) }
            // No file that every user may write is made again as such a file.
            guard try FileOwnership.ownerLosing(path) == 61_001 else { exit(3) }
        }
        #expect(try folder.names() == ["app.db"])
        #expect(try FileOwnership.ownerLosing(folder.file("none")) == nil)
    }
}

/// Whether a body is refused for the sake of the owner.
private func isRefused(_ body: () throws -> Void) -> Bool {
    do {
        try body()
        return false
    } catch { return (error as? StoreError)?.code == .notOwner }
}
