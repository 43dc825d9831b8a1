"""OpenAPI: from a document to the tables of the tools that its operations are, and of the API that they share. Pure.

apidocument   its parts, decoded when they are asked for; references
swagger       operations of Swagger 2.0 in the form of OpenAPI 3
conversion    schemas, as JSON Schemas of 2020-12
responses     what a success gives, as a loose schema
requests      where each parameter stands in a request: path, query, headers, cookies
bodies        and what is in its body
security      which credentials an operation needs, and whether they are there
operations    one operation: its name, its texts, its table
adapter       the door: all of a document
"""
