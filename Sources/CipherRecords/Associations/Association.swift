import CipherDatabase

/// How the rows of one table lead to those of another.
///
/// ```swift
/// struct Author: TableRecord {
///     static let books = hasMany(Book.self)
/// }
/// struct Book: TableRecord {
///     static let author = belongsTo(Author.self)
/// }
/// let request = Book.including(required: Book.author.filter { $0.country == "FR" })
/// ```
///
/// An association can be given filters, orders, selections and further associations, as a request can.
public protocol Association<OriginRowDecoder, RowDecoder>: DerivableRequest {
    /// The type of the rows that the association starts from.
    associatedtype OriginRowDecoder
    /// The tables on the way.
    var sqlAssociation: SQLAssociation { get set }
}

/// An association that leads to one row at most.
public protocol AssociationToOne<OriginRowDecoder, RowDecoder>: Association {}

/// An association that leads to any number of rows.
public protocol AssociationToMany<OriginRowDecoder, RowDecoder>: Association {}

/// The tables on the way of an association.
public struct SQLAssociation: Sendable {
    var chain: AssociationChain
}

extension Association {
    /// The request of the destination.
    public var sqlRelation: SQLRelation {
        get { SQLRelation(content: chain.destination.relation) }
        set { chain.destination.relation = newValue.content }
    }

    var chain: AssociationChain {
        get { sqlAssociation.chain }
        set { sqlAssociation.chain = newValue }
    }

    /// The association with another name for its rows: that of scopes, of prefetched rows and of properties.
    public func forKey(_ key: String) -> Self {
        var association = self
        association.chain.destination.key = AssociationKey(key, isToMany: chain.isToMany)
        return association
    }

    /// The association with another name for its rows: that of scopes, of prefetched rows and of properties.
    public func forKey(_ key: some CodingKey) -> Self { forKey(key.stringValue) }
}

/// The columns of a foreign key, for associations that the schema does not settle.
///
/// ```swift
/// static let translator = belongsTo(Person.self, key: "translator", using: ForeignKey(["translatorId"]))
/// ```
public struct ForeignKey: Sendable {
    let columns: [String]
    let destinationColumns: [String]?

    /// - Parameters:
    ///   - columns: The columns of the table that refers to the other one.
    ///   - destinationColumns: The columns that they refer to; nil for those of the schema, otherwise the primary key.
    public init(_ columns: [String], to destinationColumns: [String]? = nil) {
        self.columns = columns
        self.destinationColumns = destinationColumns
    }

    /// - Parameters:
    ///   - columns: The columns of the table that refers to the other one.
    ///   - destinationColumns: The columns that they refer to; nil for those of the schema, otherwise the primary key.
    public init(_ columns: [any ColumnExpression], to destinationColumns: [any ColumnExpression]? = nil) {
        self.init(columns.map(\.name), to: destinationColumns?.map(\.name))
    }
}

// MARK: - Kinds

/// The origin has the foreign key: a book belongs to its author.
public struct BelongsToAssociation<OriginRowDecoder, RowDecoder>: AssociationToOne {
    public var sqlAssociation: SQLAssociation
}

/// The destination has the foreign key, once for each row of the origin: a country has one profile.
public struct HasOneAssociation<OriginRowDecoder, RowDecoder>: AssociationToOne {
    public var sqlAssociation: SQLAssociation
}

/// The destination has the foreign key: an author has many books.
public struct HasManyAssociation<OriginRowDecoder, RowDecoder>: AssociationToMany {
    public var sqlAssociation: SQLAssociation
}

/// An association of an association that leads to one row at most.
public struct HasOneThroughAssociation<OriginRowDecoder, RowDecoder>: AssociationToOne {
    public var sqlAssociation: SQLAssociation
}

/// An association of an association that leads to any number of rows.
public struct HasManyThroughAssociation<OriginRowDecoder, RowDecoder>: AssociationToMany {
    public var sqlAssociation: SQLAssociation
}

/// An association by a condition, to a common table expression or from one.
public struct JoinAssociation<OriginRowDecoder, RowDecoder>: AssociationToOne {
    public var sqlAssociation: SQLAssociation
}

extension SQLAssociation {
    /// An association to a table.
    init(_ relation: Relation, key: String?, _ foreignKey: ForeignKey?, isToMany: Bool, isInLeftTable: Bool) {
        let link = ForeignKeyLink(
            columns: foreignKey?.columns, destinationColumns: foreignKey?.destinationColumns,
            isInLeftTable: isInLeftTable)
        chain = AssociationChain(
            destination: AssociationChain.Step(
                key: key.map { AssociationKey($0, isToMany: isToMany) } ?? AssociationKey(table: relation.table),
                isToMany: isToMany, link: .foreignKey(link), relation: relation))
    }

    /// An association of an association.
    init(_ association: SQLAssociation, through pivot: SQLAssociation, key: String?) {
        chain = association.chain.through(pivot.chain)
        if let key { chain.destination.key = AssociationKey(key, isToMany: chain.isToMany) }
    }

    /// An association by a condition.
    init<Left, Right>(
        _ relation: Relation, _ condition: (TableAlias<Left>, TableAlias<Right>) -> any SQLExpressible
    ) {
        let (left, right) = (TableAlias<Left>(), TableAlias<Right>())
        let link = Join.Link.condition(Term(condition(left, right).sqlExpression), left: left.id, right: right.id)
        chain = AssociationChain(
            destination: AssociationChain.Step(
                key: AssociationKey(table: relation.table), isToMany: false, link: link, relation: relation))
    }

    /// An association without a condition: each row with each.
    init(_ relation: Relation) {
        let link = Join.Link.condition(nil, left: AliasID(name: nil), right: AliasID(name: nil))
        chain = AssociationChain(
            destination: AssociationChain.Step(
                key: AssociationKey(table: relation.table), isToMany: false, link: link, relation: relation))
    }
}

// MARK: - Of record types

extension TableRecord {
    /// An association to the one row that a foreign key of this table refers to.
    ///
    /// - Parameters:
    ///   - key: The name of the row in scopes and properties; nil for that of its table, in the singular.
    ///   - foreignKey: The columns; nil for those of the schema.
    public static func belongsTo<Destination: TableRecord>(
        _ destination: Destination.Type, key: String? = nil, using foreignKey: ForeignKey? = nil
    ) -> BelongsToAssociation<Self, Destination> {
        BelongsToAssociation(
            sqlAssociation: SQLAssociation(
                Destination.relation, key: key, foreignKey, isToMany: false, isInLeftTable: true))
    }

    /// An association to the one row that a foreign key of this table refers to.
    ///
    /// - Parameters:
    ///   - key: The name of the row in scopes and properties; nil for that of its table, in the singular.
    ///   - foreignKey: The columns; nil for those of the schema.
    public static func belongsTo<Destination>(
        _ destination: Table<Destination>, key: String? = nil, using foreignKey: ForeignKey? = nil
    ) -> BelongsToAssociation<Self, Destination> {
        BelongsToAssociation(
            sqlAssociation: SQLAssociation(
                destination.all().relation, key: key, foreignKey, isToMany: false, isInLeftTable: true))
    }

    /// An association to the one row whose foreign key refers to a row of this table.
    ///
    /// - Parameters:
    ///   - key: The name of the row in scopes and properties; nil for that of its table, in the singular.
    ///   - foreignKey: The columns; nil for those of the schema.
    public static func hasOne<Destination: TableRecord>(
        _ destination: Destination.Type, key: String? = nil, using foreignKey: ForeignKey? = nil
    ) -> HasOneAssociation<Self, Destination> {
        HasOneAssociation(
            sqlAssociation: SQLAssociation(
                Destination.relation, key: key, foreignKey, isToMany: false, isInLeftTable: false))
    }

    /// An association to the one row whose foreign key refers to a row of this table.
    ///
    /// - Parameters:
    ///   - key: The name of the row in scopes and properties; nil for that of its table, in the singular.
    ///   - foreignKey: The columns; nil for those of the schema.
    public static func hasOne<Destination>(
        _ destination: Table<Destination>, key: String? = nil, using foreignKey: ForeignKey? = nil
    ) -> HasOneAssociation<Self, Destination> {
        HasOneAssociation(
            sqlAssociation: SQLAssociation(
                destination.all().relation, key: key, foreignKey, isToMany: false, isInLeftTable: false))
    }

    /// An association to the rows whose foreign keys refer to a row of this table.
    ///
    /// - Parameters:
    ///   - key: The name of the rows in properties; nil for that of their table, in the plural.
    ///   - foreignKey: The columns; nil for those of the schema.
    public static func hasMany<Destination: TableRecord>(
        _ destination: Destination.Type, key: String? = nil, using foreignKey: ForeignKey? = nil
    ) -> HasManyAssociation<Self, Destination> {
        HasManyAssociation(
            sqlAssociation: SQLAssociation(
                Destination.relation, key: key, foreignKey, isToMany: true, isInLeftTable: false))
    }

    /// An association to the rows whose foreign keys refer to a row of this table.
    ///
    /// - Parameters:
    ///   - key: The name of the rows in properties; nil for that of their table, in the plural.
    ///   - foreignKey: The columns; nil for those of the schema.
    public static func hasMany<Destination>(
        _ destination: Table<Destination>, key: String? = nil, using foreignKey: ForeignKey? = nil
    ) -> HasManyAssociation<Self, Destination> {
        HasManyAssociation(
            sqlAssociation: SQLAssociation(
                destination.all().relation, key: key, foreignKey, isToMany: true, isInLeftTable: false))
    }

    /// An association to the rows that another association leads to, from the rows of a first one.
    ///
    /// - Parameters:
    ///   - pivot: The association of this table.
    ///   - target: The association of the table that `pivot` leads to.
    ///   - key: The name of the rows in properties; nil for that of `target`.
    public static func hasMany<Pivot: Association, Target: Association>(
        _ destination: Target.RowDecoder.Type, through pivot: Pivot, using target: Target, key: String? = nil
    ) -> HasManyThroughAssociation<Self, Target.RowDecoder>
    where Pivot.OriginRowDecoder == Self, Pivot.RowDecoder == Target.OriginRowDecoder {
        HasManyThroughAssociation(
            sqlAssociation: SQLAssociation(target.sqlAssociation, through: pivot.sqlAssociation, key: key))
    }

    /// An association to the one row that another association leads to, from the row of a first one.
    ///
    /// - Parameters:
    ///   - pivot: The association of this table.
    ///   - target: The association of the table that `pivot` leads to.
    ///   - key: The name of the row in scopes and properties; nil for that of `target`.
    public static func hasOne<Pivot: AssociationToOne, Target: AssociationToOne>(
        _ destination: Target.RowDecoder.Type, through pivot: Pivot, using target: Target, key: String? = nil
    ) -> HasOneThroughAssociation<Self, Target.RowDecoder>
    where Pivot.OriginRowDecoder == Self, Pivot.RowDecoder == Target.OriginRowDecoder {
        HasOneThroughAssociation(
            sqlAssociation: SQLAssociation(target.sqlAssociation, through: pivot.sqlAssociation, key: key))
    }

    /// An association to the rows of a common table expression for which a condition is true.
    ///
    /// - Parameter condition: The condition, given this table and the common table expression.
    public static func association<Destination>(
        to cte: CommonTableExpression<Destination>,
        on condition: (_ left: TableAlias<Self>, _ right: TableAlias<Destination>) -> any SQLSpecificExpressible
    ) -> JoinAssociation<Self, Destination> {
        JoinAssociation(sqlAssociation: SQLAssociation(cte.all().relation, condition))
    }

    /// An association to the rows of a common table expression for which a condition is true.
    ///
    /// - Parameter condition: The condition, given this table and the common table expression.
    @available(*, unavailable, message: "a Bool is the same for every row: compare with SQL, or write .databaseValue")
    public static func association<Destination>(
        to cte: CommonTableExpression<Destination>,
        on condition: (_ left: TableAlias<Self>, _ right: TableAlias<Destination>) -> any SQLExpressible
    ) -> JoinAssociation<Self, Destination> {
        JoinAssociation(sqlAssociation: SQLAssociation(cte.all().relation, condition))
    }

    /// An association to all rows of a common table expression.
    public static func association<Destination>(
        to cte: CommonTableExpression<Destination>
    ) -> JoinAssociation<Self, Destination> {
        JoinAssociation(sqlAssociation: SQLAssociation(cte.all().relation))
    }
}

extension TableRecord where Self: EncodableRecord {
    /// The rows that an association leads to from this record.
    ///
    /// ```swift
    /// let books = try author.request(for: Author.books).fetchAll(db)
    /// ```
    public func request<A: Association>(for association: A) -> QueryInterfaceRequest<A.RowDecoder>
    where A.OriginRowDecoder == Self {
        let chain = association.chain
        let link = (chain.pivots.first ?? chain.destination).link
        let condition: Term
        do {
            let container = try PersistenceContainer(self)
            let origin = OriginRow(link: link, table: Self.databaseTableName, columns: container.columns)
            condition = Term(.apply(.linked(origin), container.values.map { Term($0) }))
        } catch {
            // Without the error: it may quote a value.
            condition = .failure("\(Self.self) cannot be encoded: call encode(to:) to see why")
        }
        return QueryInterfaceRequest(relation: chain.request(where: condition))
    }
}

// MARK: - Of tables

// The calls of ``TableRecord``, for a table.

extension Table {
    /// An association to the one row that a foreign key of this table refers to.
    public func belongsTo<Destination: TableRecord>(
        _ destination: Destination.Type, key: String? = nil, using foreignKey: ForeignKey? = nil
    ) -> BelongsToAssociation<RowDecoder, Destination> {
        BelongsToAssociation(
            sqlAssociation: SQLAssociation(
                Destination.relation, key: key, foreignKey, isToMany: false, isInLeftTable: true))
    }

    /// An association to the one row that a foreign key of this table refers to.
    public func belongsTo<Destination>(
        _ destination: Table<Destination>, key: String? = nil, using foreignKey: ForeignKey? = nil
    ) -> BelongsToAssociation<RowDecoder, Destination> {
        BelongsToAssociation(
            sqlAssociation: SQLAssociation(
                destination.all().relation, key: key, foreignKey, isToMany: false, isInLeftTable: true))
    }

    /// An association to the one row whose foreign key refers to a row of this table.
    public func hasOne<Destination: TableRecord>(
        _ destination: Destination.Type, key: String? = nil, using foreignKey: ForeignKey? = nil
    ) -> HasOneAssociation<RowDecoder, Destination> {
        HasOneAssociation(
            sqlAssociation: SQLAssociation(
                Destination.relation, key: key, foreignKey, isToMany: false, isInLeftTable: false))
    }

    /// An association to the one row whose foreign key refers to a row of this table.
    public func hasOne<Destination>(
        _ destination: Table<Destination>, key: String? = nil, using foreignKey: ForeignKey? = nil
    ) -> HasOneAssociation<RowDecoder, Destination> {
        HasOneAssociation(
            sqlAssociation: SQLAssociation(
                destination.all().relation, key: key, foreignKey, isToMany: false, isInLeftTable: false))
    }

    /// An association to the rows whose foreign keys refer to a row of this table.
    public func hasMany<Destination: TableRecord>(
        _ destination: Destination.Type, key: String? = nil, using foreignKey: ForeignKey? = nil
    ) -> HasManyAssociation<RowDecoder, Destination> {
        HasManyAssociation(
            sqlAssociation: SQLAssociation(
                Destination.relation, key: key, foreignKey, isToMany: true, isInLeftTable: false))
    }

    /// An association to the rows whose foreign keys refer to a row of this table.
    public func hasMany<Destination>(
        _ destination: Table<Destination>, key: String? = nil, using foreignKey: ForeignKey? = nil
    ) -> HasManyAssociation<RowDecoder, Destination> {
        HasManyAssociation(
            sqlAssociation: SQLAssociation(
                destination.all().relation, key: key, foreignKey, isToMany: true, isInLeftTable: false))
    }

    /// An association to the rows that another association leads to, from the rows of a first one.
    public func hasMany<Pivot: Association, Target: Association>(
        _ destination: Target.RowDecoder.Type, through pivot: Pivot, using target: Target, key: String? = nil
    ) -> HasManyThroughAssociation<RowDecoder, Target.RowDecoder>
    where Pivot.OriginRowDecoder == RowDecoder, Pivot.RowDecoder == Target.OriginRowDecoder {
        HasManyThroughAssociation(
            sqlAssociation: SQLAssociation(target.sqlAssociation, through: pivot.sqlAssociation, key: key))
    }

    /// An association to the one row that another association leads to, from the row of a first one.
    public func hasOne<Pivot: AssociationToOne, Target: AssociationToOne>(
        _ destination: Target.RowDecoder.Type, through pivot: Pivot, using target: Target, key: String? = nil
    ) -> HasOneThroughAssociation<RowDecoder, Target.RowDecoder>
    where Pivot.OriginRowDecoder == RowDecoder, Pivot.RowDecoder == Target.OriginRowDecoder {
        HasOneThroughAssociation(
            sqlAssociation: SQLAssociation(target.sqlAssociation, through: pivot.sqlAssociation, key: key))
    }

    /// An association to the rows of a common table expression for which a condition is true.
    public func association<Destination>(
        to cte: CommonTableExpression<Destination>,
        on condition: (_ left: TableAlias<RowDecoder>, _ right: TableAlias<Destination>) -> any SQLSpecificExpressible
    ) -> JoinAssociation<RowDecoder, Destination> {
        JoinAssociation(sqlAssociation: SQLAssociation(cte.all().relation, condition))
    }

    /// An association to the rows of a common table expression for which a condition is true.
    @available(*, unavailable, message: "a Bool is the same for every row: compare with SQL, or write .databaseValue")
    public func association<Destination>(
        to cte: CommonTableExpression<Destination>,
        on condition: (_ left: TableAlias<RowDecoder>, _ right: TableAlias<Destination>) -> any SQLExpressible
    ) -> JoinAssociation<RowDecoder, Destination> {
        JoinAssociation(sqlAssociation: SQLAssociation(cte.all().relation, condition))
    }

    /// An association to all rows of a common table expression.
    public func association<Destination>(
        to cte: CommonTableExpression<Destination>
    ) -> JoinAssociation<RowDecoder, Destination> {
        JoinAssociation(sqlAssociation: SQLAssociation(cte.all().relation))
    }
}

// MARK: - Of common table expressions

extension CommonTableExpression {
    /// An association to the rows of a table for which a condition is true.
    ///
    /// - Parameter condition: The condition, given this expression and the table.
    public func association<Destination: TableRecord>(
        to destination: Destination.Type,
        on condition: (_ left: TableAlias<RowDecoder>, _ right: TableAlias<Destination>) -> any SQLSpecificExpressible
    ) -> JoinAssociation<RowDecoder, Destination> {
        JoinAssociation(sqlAssociation: SQLAssociation(Destination.relation, condition))
    }

    /// An association to the rows of a table for which a condition is true.
    ///
    /// - Parameter condition: The condition, given this expression and the table.
    @available(*, unavailable, message: "a Bool is the same for every row: compare with SQL, or write .databaseValue")
    public func association<Destination: TableRecord>(
        to destination: Destination.Type,
        on condition: (_ left: TableAlias<RowDecoder>, _ right: TableAlias<Destination>) -> any SQLExpressible
    ) -> JoinAssociation<RowDecoder, Destination> {
        JoinAssociation(sqlAssociation: SQLAssociation(Destination.relation, condition))
    }

    /// An association to the rows of a table for which a condition is true.
    public func association<Destination>(
        to destination: Table<Destination>,
        on condition: (_ left: TableAlias<RowDecoder>, _ right: TableAlias<Destination>) -> any SQLSpecificExpressible
    ) -> JoinAssociation<RowDecoder, Destination> {
        JoinAssociation(sqlAssociation: SQLAssociation(destination.all().relation, condition))
    }

    /// An association to the rows of a table for which a condition is true.
    @available(*, unavailable, message: "a Bool is the same for every row: compare with SQL, or write .databaseValue")
    public func association<Destination>(
        to destination: Table<Destination>,
        on condition: (_ left: TableAlias<RowDecoder>, _ right: TableAlias<Destination>) -> any SQLExpressible
    ) -> JoinAssociation<RowDecoder, Destination> {
        JoinAssociation(sqlAssociation: SQLAssociation(destination.all().relation, condition))
    }

    /// An association to the rows of another common table expression for which a condition is true.
    public func association<Destination>(
        to cte: CommonTableExpression<Destination>,
        on condition: (_ left: TableAlias<RowDecoder>, _ right: TableAlias<Destination>) -> any SQLSpecificExpressible
    ) -> JoinAssociation<RowDecoder, Destination> {
        JoinAssociation(sqlAssociation: SQLAssociation(cte.all().relation, condition))
    }

    /// An association to the rows of another common table expression for which a condition is true.
    @available(*, unavailable, message: "a Bool is the same for every row: compare with SQL, or write .databaseValue")
    public func association<Destination>(
        to cte: CommonTableExpression<Destination>,
        on condition: (_ left: TableAlias<RowDecoder>, _ right: TableAlias<Destination>) -> any SQLExpressible
    ) -> JoinAssociation<RowDecoder, Destination> {
        JoinAssociation(sqlAssociation: SQLAssociation(cte.all().relation, condition))
    }

    /// An association to all rows of another common table expression.
    public func association<Destination>(
        to cte: CommonTableExpression<Destination>
    ) -> JoinAssociation<RowDecoder, Destination> {
        JoinAssociation(sqlAssociation: SQLAssociation(cte.all().relation))
    }

    /// An association to all rows of a table.
    public func association<Destination: TableRecord>(
        to destination: Destination.Type
    ) -> JoinAssociation<RowDecoder, Destination> {
        JoinAssociation(sqlAssociation: SQLAssociation(Destination.relation))
    }

    /// An association to all rows of a table.
    public func association<Destination>(
        to destination: Table<Destination>
    ) -> JoinAssociation<RowDecoder, Destination> {
        JoinAssociation(sqlAssociation: SQLAssociation(destination.all().relation))
    }
}
