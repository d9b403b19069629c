import Foundation
import TestKit
import Testing

@Suite("The command line ends the attention for objects, and withdraws invitations")
struct SyncAttentionTests {
    private let place: SyncPlace

    init() throws { place = try SyncPlace() }

    @Test("an object with the content of another one needs attention until it is acknowledged or deleted")
    func acknowledge() throws {
        try place.makeDevices("a.db", "b.db")
        try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1)")
        try place.settle("a.db", "b.db")
        let path = try #require(try place.objects().first)
        var fields = path.split(separator: "-", omittingEmptySubsequences: false).map(String.init)
        (fields[fields.count - 6], fields[fields.count - 5]) = ("900", "900")
        let planted = fields.joined(separator: "-")
        try FileManager.default.copyItem(atPath: path, toPath: planted)
        for name in ["a.db", "b.db"] {
            let run = try place.sync("run", name)
            #expect(
                run.status == 2 && run.attention.contains("cipherctl sync status")
                    && run.attention.contains("--acknowledge"), "\(run.output)")
            #expect(try place.sync("status", name).status == 2)
        }
        let acknowledged = try place.sync("status", "a.db", "--acknowledge")
        #expect(acknowledged.status == 0 && acknowledged.json["in_sync"] as? Bool == true, "\(acknowledged.output)")
        let notes = try #require(acknowledged.json["notes"] as? [String])
        let object = try #require(planted.split(separator: "/").last)
        #expect(notes.count == 1 && notes[0].contains(object), "\(notes)")
        let remotes = try #require(acknowledged.json["remotes"] as? [[String: Any]])
        #expect(
            (remotes[0]["evidence"] as? [String])?.count == 1 && (remotes[0]["problems"] as? [Any])?.isEmpty == true)
        #expect(try place.sync("run", "a.db").status == 0 && place.sync("run", "b.db").status == 2)
        try FileManager.default.removeItem(atPath: planted)
        #expect(try place.sync("run", "b.db").status == 0)
        try place.expectEqual("a.db", "b.db")
    }

    @Test("an admin lists the open invitations of all, and withdraws one; the device that comes later is told so")
    func withdraw() throws {
        try place.makeDevices("a.db")
        try place.makeStore("b.db")
        try place.add("b.db", role: "admin")
        let invited = try place.invite("a.db", "late.invitation")
        let id = try #require(invited.json["id"] as? String, "\(invited.output)")
        #expect(try place.sync("run", "b.db").status == 0)
        let listed = try place.sync("members", "b.db")
        let invitations = try #require(listed.json["invitations"] as? [[String: Any]])
        #expect(invitations.map { $0["id"] as? String } == [id], "\(listed.output)")
        let text = try place.text("members", "b.db").output
        #expect(text.contains("\(id.prefix(12))  invitation as writer, by \"a.db\""), "\(text)")
        for wrong in ["ffff", String(id.prefix(3))] {
            let refused = try place.sync("members", "b.db", "--withdraw", wrong)
            #expect(refused.status == 64 && refused.code == "unknownInvitation", "\(refused.errors)")
        }
        let withdrawn = try place.sync("members", "b.db", "--withdraw", String(id.prefix(8)))
        #expect(
            withdrawn.status == 0 && (withdrawn.json["invitations"] as? [Any])?.isEmpty == true, "\(withdrawn.output)")
        try place.makeStore("c.db")
        let joined = try place.join("c.db", "late.invitation")
        #expect(joined.status == 77 && joined.code == "invitationWithdrawn", "\(joined.errors)")
        try place.settle("a.db", "b.db")
        try place.expectEqual("a.db", "b.db")
    }

    @Test(
        "a store that joined by an invitation which was withdrawn meanwhile is told what to do, and others are settled")
    func race() throws {
        try place.makeDevices("a.db", "b.db")
        let invited = try place.invite("a.db", "c.invitation")
        let id = try #require(invited.json["id"] as? String)
        // The withdrawal is made without the remote.
        try FileManager.default.moveItem(atPath: place.place.path("remote"), toPath: place.place.path("away"))
        let withdrawn = try place.sync("members", "a.db", "--withdraw", id)
        #expect(withdrawn.status == 0 && withdrawn.errors.contains("withdrawn here"), "\(withdrawn.errors)")
        try FileManager.default.moveItem(atPath: place.place.path("away"), toPath: place.place.path("remote"))
        try place.makeStore("c.db")
        #expect(try place.join("c.db", "c.invitation").status == 0)
        #expect(try place.sync("run", "a.db").status == 0)
        try place.commit("c.db", "INSERT INTO player VALUES ('9', 'late', 1)")
        let run = try place.sync("run", "c.db")
        #expect(run.status == 2 && run.attention.contains("This store is no member"), "\(run.output)")
        #expect(run.attention.contains("--replace"), "\(run.output)")
        for name in ["b.db", "a.db", "b.db"] { #expect(try place.sync("run", name).status == 0) }
        let members = try place.text("members", "a.db").output
        #expect(members.contains("\"c.db\", writer, never admitted"), "\(members)")
        try place.expectEqual("a.db", "b.db")
        #expect(try !place.players("a.db").contains("late"))
    }
}
