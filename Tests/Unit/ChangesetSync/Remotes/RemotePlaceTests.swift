import Foundation
import Testing

@testable import ChangesetSync

@Suite("Addresses of remotes, as a store keeps them")
struct RemotePlaceTests {
    private func code(_ text: String) -> RemoteAddressError.Code? {
        do {
            _ = try RemoteAddress(text)
            return nil
        } catch { return (error as? RemoteAddressError)?.code }
    }

    @Test("a folder has one name, however its path is written")
    func folders() throws {
        let address = try RemoteAddress("dir:/mnt//share/./app/")
        #expect(address.kind == .directory(path: "/mnt/share/app") && "\(address)" == "dir:/mnt/share/app")
        let here = FileManager.default.currentDirectoryPath
        #expect(try RemoteAddress("dir:share").kind == .directory(path: "\(here)/share"))
        // After a symbolic link it is another folder.
        #expect(try RemoteAddress("dir:/mnt/link/../share").kind == .directory(path: "/mnt/link/../share"))
    }

    @Test(
        "passwords are left out of what is kept and shown, users as well of what others get",
        arguments: [
            ("postgresql://ann:pw@db:5432/app?sslmode=verify-full", "ann@db:5432/app?sslmode=verify-full"),
            ("postgresql://ann:p@w:x@db/app", "ann@db/app"),
            ("postgresql://:pw@db/app", "db/app"),
            ("postgresql://db/app?password=pw&sslmode=require", "db/app?sslmode=require"),
            ("postgresql://db/app?pass%77ord=pw", "db/app"),
            ("postgresql://db/app?PASSWORD=pw&sslpassword=pw", "db/app"),
            ("postgresql:///app?host=/run/postgresql", "/app?host=/run/postgresql"),
            ("postgresql://[::1]:5433/app", "[::1]:5433/app"),
        ])
    func passwords(text: String, shown: String) throws {
        let address = try RemoteAddress(text)
        #expect("\(address)" == "postgresql://" + shown)
        #expect(address.hasPassword == (address.text != "postgresql://" + shown))
        #expect(!address.withoutCredentials.text.contains("ann"))
        #expect(address.text == text)
    }

    @Test("other texts are refused, and not repeated")
    func refusals() throws {
        for text in ["", "dir:", "/mnt/share", "mysql://db/app", "dir:/mnt/\nshare", "host=db password=pw"] {
            #expect(code(text) == .unknownForm, "\(text)")
        }
        // The end of a password with a slash in it.
        for text in ["postgresql://ann:a/b@db/app", "postgresql://db/app?user=ann@example"] {
            #expect(code(text) == .notEscaped)
        }
        #expect(code("dir:/" + String(repeating: "a", count: 1024)) == .tooLong)
        for code: RemoteAddressError.Code in [.unknownForm, .notEscaped, .tooLong] {
            #expect("\(RemoteAddressError(code))".hasPrefix(code.rawValue))
        }
    }

    // Story: `hostaddr` sent the password for a trusted host to the author of the invitation.
    @Test(
        "an invitation does not choose how this machine connects",
        arguments: [
            "hostaddr=10.0.0.9", "service=x", "options=-c%20x", "passfile=/tmp/p", "user=ann", "host=evil", "sslkey=/k",
            "HOSTADDR=10.0.0.9", "h%6Fstaddr=10.0.0.9", "sslmode=require&hostaddr=10.0.0.9", "sslrootcert=/x",
            "dbname=x",
        ])
    func offered(parameters: String) throws {
        #expect(throws: RemoteAddressError(.notOffered)) {
            try RemoteAddress(offered: "postgresql://db/app?" + parameters)
        }
        #expect(throws: RemoteAddressError(.notOffered)) { try RemoteAddress(offered: "postgresql://ann@db/app") }
        for text in ["postgresql://db/app?sslmode=verify-full", "postgresql:///app?host=%2Frun%2Fpg", "dir:/mnt/share"]
        {
            #expect(try RemoteAddress(offered: text).text == text)
        }
    }

    @Test("the name under which a store remembers a remote gives its address again, without the password")
    func names() throws {
        let names = [
            ("dir:/mnt/share", "/mnt/share"),
            ("postgresql://ann:pw@db/app?sslmode=verify-full", "postgresql://ann@db/app?sslmode=verify-full"),
        ]
        for (text, name) in names {
            let address = try RemoteAddress(text)
            #expect(address.name == name)
            #expect(try RemoteAddress(named: name) == address.withoutPassword)
        }
    }
}
