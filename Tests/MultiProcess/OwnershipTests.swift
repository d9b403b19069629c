import Foundation
import StorePlatform
import TestKit
import Testing

/// A store of one user that another user accesses through the group of the folder, of which the owner is no member.
///
/// A rotation by the other user once changed the owner of the database, and the former owner could not open it again.
@Suite(.serialized, .enabled(if: geteuid() == 0, "only root can start processes of other users"))
struct OwnershipTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }
    private static let owner: UInt32 = 61_001
    private static let member: UInt32 = 61_002
    private static let group: UInt32 = 62_000

    init() throws {
        let founder = try ActorProcess()
        #expect(founder.ask("open \(path) raw")?.hasPrefix("ok ") == true)
        #expect(founder.ask("mark 1") == "ok")
        try giveToOwner()
        #expect(chmod(folder.url.path, 0o2770) == 0)
    }

    private func giveToOwner() throws {
        for name in try files() + [""] {
            #expect(chown(folder.path(name), Self.owner, Self.group) == 0)
            if !name.isEmpty { #expect(chmod(folder.path(name), 0o660) == 0) }
        }
    }

    private func files() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: folder.url.path) }

    /// The identities of the database, the sidecar and its backup, after a check of their owner.
    private func identities() throws -> [FileIdentity] {
        try ["", "-sidecar", "-sidecar.bak"].map { ending in
            let status = try #require(try Files.status(of: path + ending))
            #expect(status.owner == Self.owner && status.group == Self.group && status.permissions == 0o660)
            return status.identity
        }
    }

    private func member() throws -> ActorProcess {
        let member = try ActorProcess()
        #expect(member.ask("become \(Self.member) \(Self.group)") == "ok")
        return member
    }

    private func expectOwnerGoesOn() throws {
        let owner = try ActorProcess()
        #expect(owner.ask("become \(Self.owner)") == "ok")
        let answer = owner.ask("open \(path) raw") ?? "died"
        #expect(answer.hasPrefix("ok "), "\(answer)")
        #expect(owner.ask("mark 1") == "ok")
        #expect(owner.ask("rotate")?.hasPrefix("ok ") == true)
    }

    // The umask once decided: a store created under 022 or 077 was not accessible to the group.
    @Test(
        "a store of mode 0660 in a directory of the group is used by all its members, whoever creates it",
        arguments: [1, 2])
    func groupStore(creator: Int) throws {
        let shared = TemporaryFolder()
        let place = shared.path("app.db")
        #expect(chown(shared.url.path, 0, Self.group) == 0 && chmod(shared.url.path, 0o2770) == 0)
        var members = [try member(), try ActorProcess()]
        #expect(members[1].ask("become 61003 \(Self.group)") == "ok")
        if creator == 2 { members.reverse() }
        for (number, member) in members.enumerated() {
            let command = number == 0 ? "create-shared \(place) raw 660" : "open \(place) raw"
            let answer = member.ask(command) ?? "died"
            #expect(answer.hasPrefix("ok "), "\(answer)")
            #expect(member.ask("mark 1") == "ok")
        }
        // The first member continues to write while the other has the store open.
        #expect(members[0].ask("mark 1") == "ok")
        let names = try FileManager.default.contentsOfDirectory(atPath: shared.url.path)
        #expect(names.count == 7, "\(names)")
        for name in names {
            let status = try #require(try Files.status(of: shared.path(name)))
            #expect(status.group == Self.group && status.permissions == 0o660, "\(name)")
        }
    }

    @Test("a rotation and a change of keys that would take the store from its owner are refused, and change nothing")
    func refused() throws {
        let before = try identities()
        let member = try member()
        #expect(member.ask("open \(path) raw")?.hasPrefix("ok ") == true)
        for command in ["rotate", "key-add other", "remove-slot 1"] {
            let answer = member.ask(command) ?? "died"
            #expect(answer.hasPrefix("error notOwner"), "\(answer)")
            #expect(answer.contains("Let user 61001 or root do it."), "\(answer)")
            #expect(try identities() == before)
        }
        #expect(try !files().contains { $0.contains(".tmp-") || $0.hasSuffix("-rotating") })
        #expect(member.ask("mark 1") == "ok")
        member.end()
        try expectOwnerGoesOn()
    }

    // The restoration removed nothing and put nothing back: the store had second names, and nobody could open it.
    @Test(
        "where the folder has the sticky bit, a restoration, rotation or change of keys by a member is refused, and changes nothing",
        arguments: [Self.owner, 0])
    func stickyFolder(owner: UInt32) throws {
        for name in try files() { #expect(chown(folder.path(name), owner, Self.group) == 0) }
        let place = TemporaryFolder()
        #expect(chmod(place.url.path, 0o777) == 0)
        let member = try member()
        #expect(member.ask("open \(path) raw")?.hasPrefix("ok ") == true)
        #expect(member.ask("backup \(place.path("copy"))")?.hasPrefix("ok ") == true)
        #expect(chmod(folder.url.path, 0o3770) == 0)
        let before = try files().sorted()
        for command in ["rotate", "key-add other", "restore \(place.path("copy")) \(path) raw replace"] {
            let answer = member.ask(command) ?? "died"
            #expect(answer.hasPrefix("error notOwner"), "\(command): \(answer)")
            #expect(answer.contains("Let user \(owner) or root do it."), "\(answer)")
        }
        #expect(try files().sorted() == before)
        for name in before { #expect(try Files.status(of: folder.path(name))?.linkCount == 1, "\(name)") }
        #expect(member.ask("mark 1") == "ok")
    }

    @Test("a copy of the sidecar that is missing is not made by one whose it would be; the store opens all the same")
    func missingCopy() throws {
        try FileManager.default.removeItem(atPath: path + "-sidecar.bak")
        let member = try member()
        #expect(member.ask("open \(path) raw")?.hasPrefix("ok ") == true)
        #expect(try !files().contains("app.db-sidecar.bak"))
        member.end()
        try expectOwnerGoesOn()
        _ = try identities()
    }

    @Test(
        "a rotation of the owner's that was killed is left to him: while pages were copied the store is used, then refused",
        arguments: ["rotationCopied", "rotationSwitchingWritten"])
    func cutRotation(point: String) throws {
        let owner = try ActorProcess()
        #expect(owner.ask("become \(Self.owner)") == "ok")
        #expect(owner.ask("open \(path) raw")?.hasPrefix("ok ") == true)
        #expect(owner.ask("die-at \(point)") == "ok")
        #expect(owner.ask("rotate") == nil)
        let before = try identities()
        let member = try member()
        let answer = member.ask("open \(path) raw") ?? "died"
        if point == "rotationCopied" {
            #expect(answer.hasPrefix("ok "), "\(answer)")
            #expect(member.ask("mark 1") == "ok")
        } else {
            #expect(answer.hasPrefix("error notOwner"), "\(answer)")
        }
        #expect(try identities() == before)
        member.end()
        try expectOwnerGoesOn()
    }
}
